"""A Kubernetes API server for each test, from the program kube-apiserver of Binnacle."""

from .server import ApiServer, StartError

__all__ = ["ApiServer", "StartError"]

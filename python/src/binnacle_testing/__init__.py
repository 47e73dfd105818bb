"""A Kubernetes API server for each test, from the program kube-apiserver of Binnacle."""

from .cluster import Cluster, ClusterError
from .server import ApiServer, StartError

__all__ = ["ApiServer", "Cluster", "ClusterError", "StartError"]

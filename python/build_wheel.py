"""Puts the program into the wheel where BINNACLE_KUBE_APISERVER names one; without, the wheel is for every system.

BINNACLE_WHEEL_PLATFORM says for which platform such a wheel is (manylinux_2_34_x86_64, for example); this one by default.
"""

import os
import sysconfig

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ProgramHook(BuildHookInterface):
    PLUGIN_NAME = "custom"

    def initialize(self, version, build_data):
        program = os.environ.get("BINNACLE_KUBE_APISERVER")
        if not program:
            return
        here = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        platform = os.environ.get("BINNACLE_WHEEL_PLATFORM") or here
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        build_data["force_include"][os.path.abspath(program)] = "binnacle_testing/bin/kube-apiserver"

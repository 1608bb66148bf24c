"""What this process was given: its folder, its environment, the settings file. Read once, here and nowhere else."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from d2k_agent.config import MODELS_FILE, SETTINGS_FILE, USER_KEYS, Settings, read_settings

EVALUATOR_VARIABLES = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "CUDA_HOME",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "NVIDIA_VISIBLE_DEVICES",
)
"""All that an evaluator gets of the environment: where programs, libraries and GPUs are."""
PREFIX_VARIABLES = (
    "USER",
    "LOGNAME",
    "SSH_AUTH_SOCK",
    "KRB5CCNAME",
    "XDG_RUNTIME_DIR",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "KUBECONFIG",
    "SLURM_CONF",
    "SLURM_CLUSTERS",
    "SLURM_JOB_ID",
)
"""What programs that start an evaluator elsewhere need as well: who calls, and where their servers are."""


@dataclass(frozen=True)
class Surroundings:
    """Where a command runs. `config_home` is the user's configuration folder, `python` this interpreter."""

    folder: Path
    environ: Mapping[str, str]
    config_home: Path
    python: str

    @property
    def cache_home(self) -> Path:
        """The user's folder for what can be had again: measured, compiled."""
        home = self.environ.get("HOME") or os.path.expanduser("~")
        return Path(self.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"))

    def settings_file(self) -> Path | None:
        """The settings file that holds here: this folder's, else the user's, else None."""
        for candidate in (self.folder / SETTINGS_FILE, self._users_file()):
            if os.path.isfile(candidate):  # Path.is_file raises where a folder cannot be searched
                return candidate
        return None

    def settings(self, command_line: Settings) -> Settings:
        """The command line laid over the settings file. Raises UsageError for a file that is wrong.

        One file holds, they are not mixed; only what a folder's file may not say is taken from the user's all the same.
        """
        path, users = self.settings_file(), self._users_file()
        if path is None:
            return command_line
        if path == users:
            return command_line.over(read_settings(path, of_user=True))
        own = read_settings(users, of_user=True) if os.path.isfile(users) else Settings()
        always = Settings(**{key: getattr(own, key) for key in USER_KEYS})
        return command_line.over(read_settings(path, of_user=False)).over(always)

    def _users_file(self) -> Path:
        return self.config_home / "d2k-agent" / SETTINGS_FILE

    def models_file(self) -> Path | None:
        """The user's own table of how models differ, None where there is none."""
        path = self.config_home / "d2k-agent" / MODELS_FILE
        return path if os.path.isfile(path) else None

    def runs_folder(self, settings: Settings) -> Path:
        """Where run folders are made and looked for."""
        return self.folder / (settings.runs_folder or "traces/runs")

    def provider_keys(self) -> dict[str, str]:
        """The providers' keys by variable name. They go into the model's client and nowhere else."""
        from d2k_agent.models.keys import names_a_key

        return {name: value for name, value in sorted(self.environ.items()) if names_a_key(name) and value}

    def evaluator_environment(self, *, through_prefix: bool = False) -> dict[str, str]:
        """The whole environment of an evaluator, or of the command prefix that starts it: no key is in it."""
        names = EVALUATOR_VARIABLES + (PREFIX_VARIABLES if through_prefix else ())
        return {name: self.environ[name] for name in names if name in self.environ}


def here() -> Surroundings:
    """The surroundings of this process."""
    environ = dict(os.environ)
    home = environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Surroundings(Path.cwd(), environ, Path(home), sys.executable)

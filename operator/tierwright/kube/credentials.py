"""Finds the credentials for the API server: a named kubeconfig, the one of KUBECONFIG, the pod's own, the user's."""

import os
from pathlib import Path
from typing import Final

import yaml
from kubernetes.aio import config as kube_config
from kubernetes.aio.client import Configuration

from tierwright.kube.credential_files import CredentialFiles

SERVICE_ACCOUNT_TOKEN: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
MAX_CONNECTIONS: Final = 32
_UNREADABLE: Final = (
    kube_config.ConfigException,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    yaml.YAMLError,
)
"""What the package lets through when a file with credentials is missing, cut short, or of another shape."""


class CredentialsError(Exception):
    """No usable way to the API server is configured; the message says what was tried."""


async def read_credentials(kubeconfig: str) -> tuple[Configuration, CredentialFiles]:
    """The credentials, and the files that they come from as they were just before they were read.

    A certificate and a key are read by whoever makes connections of the configuration, after this look at them: what is
    replaced in between is noticed later. Raises CredentialsError.
    """
    files = CredentialFiles(_named(kubeconfig))
    configuration = await load_configuration(kubeconfig)
    files.add(
        each
        for each in (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
        if each is not None
    )
    return configuration, files


async def load_configuration(kubeconfig: str) -> Configuration:
    """Credentials from the named kubeconfig (several paths may be joined by ``:``), else the one that KUBECONFIG names,
    else the pod's service account, else the user's own kubeconfig.

    Raises CredentialsError.
    """
    configuration = Configuration(client_session_kwargs={"trust_env": False})
    configuration.connection_pool_maxsize = MAX_CONNECTIONS
    # The certificates of many clusters lack an authority key identifier, which Python 3.13 asks for by default.
    configuration.disable_strict_ssl_verification = True
    kubeconfig = kubeconfig or os.environ.get("KUBECONFIG", "")
    try:
        if not kubeconfig and SERVICE_ACCOUNT_TOKEN.exists():
            kube_config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            await kube_config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=kubeconfig or None, client_configuration=configuration, persist_config=False
            )
    except _UNREADABLE as error:
        tried = (
            f"kubeconfig {kubeconfig!r}" if kubeconfig else "the service account and the default kubeconfig"
        )
        raise CredentialsError(f"no credentials for the API server from {tried}: {error}") from error
    return configuration


def _named(kubeconfig: str) -> list[str]:
    """The files that credentials are looked for in."""
    named = kubeconfig or os.environ.get("KUBECONFIG", "")
    if not named and not SERVICE_ACCOUNT_TOKEN.exists():
        named = str(Path(kube_config.KUBE_CONFIG_DEFAULT_LOCATION).expanduser())
    return named.split(os.pathsep) if named else [str(SERVICE_ACCOUNT_TOKEN)]

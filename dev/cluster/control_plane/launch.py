"""Starts the four programs of a control plane on free ports and returns when it answers and admits pods."""

import random
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from ipaddress import IPv4Network
from pathlib import Path

from dev.cluster.api import Api, ApiError
from dev.cluster.control_plane.pki import KeyPair, create_authority
from dev.cluster.control_plane.plane import ADMIN, ADMIN_GROUP, LOOPBACK, SERVICE_CIDR, ControlPlane
from dev.cluster.machine import processes
from dev.cluster.machine.processes import ComponentError, Process

READY_DEADLINE_S = 120.0
_PORTS = ("etcd", "etcd-peer", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
# Below the ports that the kernel hands out to outgoing connections (32768 and up) and below NodePorts (30000 and up).
_PORT_RANGE = range(20000, 30000)
_TRIES = 3
_AUDIT_POLICY = Path(__file__).parent / "audit-policy.yaml"


def start_control_plane(
    name: str,
    run_dir: Path,
    bin_dir: Path,
    version: str,
    address: str = LOOPBACK,
    service_cidr: str = SERVICE_CIDR,
    node_grace_s: int = 50,
) -> ControlPlane:
    """Start etcd, kube-apiserver, kube-controller-manager and kube-scheduler below an empty `run_dir`.

    `address` is what the API server listens on and advertises; a node silent for `node_grace_s` counts as lost.
    Returns once it is ready and the namespace `default` has its service account. Raises ComponentError with the end
    of a program's log when one dies or the deadline of 120 s passes; whoever calls cleans up then.
    """
    authority = create_authority(run_dir / "pki", f"tierwright-{name}")
    service_ip = str(IPv4Network(service_cidr)[1])
    names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    hosts = [*names, "kubernetes.default.svc.cluster.local", LOOPBACK, service_ip]
    authority.serving("kube-apiserver", [*hosts, address] if address != LOOPBACK else hosts)
    authority.serving("etcd", ["localhost", LOOPBACK])
    authority.client("kube-apiserver", file="etcd-client")
    authority.client("kube-apiserver-kubelet-client", [ADMIN_GROUP], file="kubelet-client")
    authority.signing_key("service-accounts")
    for tries_left in reversed(range(_TRIES)):
        plane = ControlPlane(name, run_dir, bin_dir, address, free_ports(address), version, service_cidr)
        try:
            _start_servers(plane)
        except ComponentError as error:
            # Somebody may take a port between our look and the program's start; anything else is not cured by a retry.
            processes.stop(processes.load(run_dir))
            if not tries_left or "address already in use" not in str(error):
                raise
            continue
        break
    _start_controllers(plane, node_grace_s)
    plane.save()
    return plane


def free_ports(address: str) -> dict[str, int]:
    """A port for each program that is free on `address` and on loopback right now."""
    ports: dict[str, int] = {}
    with ExitStack() as held:
        for program in _PORTS:
            for port in random.sample(_PORT_RANGE, 200):
                try:
                    for host in {address, LOOPBACK}:
                        sock = held.enter_context(socket.socket())
                        sock.bind((host, port))
                except OSError:
                    continue
                ports[program] = port
                break
            else:
                raise ComponentError(
                    f"no free port between {_PORT_RANGE.start} and {_PORT_RANGE.stop} on {address}"
                )
    return ports


def components(plane: ControlPlane) -> list[Process]:
    """The records of the control plane's own programs, in the order of their start."""
    found = (processes.find(plane.run_dir, program) for program in _PORTS)
    return [process for process in found if process]


def _start_servers(plane: ControlPlane) -> None:
    _start(plane, "etcd", etcd_flags(plane))
    _start(plane, "kube-apiserver", apiserver_flags(plane))
    kubeconfig = plane.kubeconfig(ADMIN, [ADMIN_GROUP])
    api = Api.from_kubeconfig(kubeconfig, timeout_s=10)
    # The API server is named first: it is its log that tells why it is not ready, also when etcd is the cause.
    watched = components(plane)[::-1]
    processes.wait_until(api.ready, "the API server to be ready", watched, READY_DEADLINE_S)
    api.close()


def _start_controllers(plane: ControlPlane, node_grace_s: int) -> None:
    manager = plane.kubeconfig("system:kube-controller-manager")
    _start(plane, "kube-controller-manager", controller_manager_flags(plane, manager, node_grace_s))
    _start(plane, "kube-scheduler", scheduler_flags(plane, plane.kubeconfig("system:kube-scheduler")))
    api = Api.from_kubeconfig(plane.admin_kubeconfig, timeout_s=10)
    watched = components(plane)[::-1]

    def admits_pods() -> bool:
        try:
            return api.exists("/api/v1/namespaces/default/serviceaccounts/default")
        except (OSError, ApiError):
            return False

    processes.wait_until(admits_pods, "the service account default/default", watched, READY_DEADLINE_S)
    api.close()


def _start(plane: ControlPlane, program: str, flags: Sequence[str]) -> None:
    processes.start(plane.run_dir, program, [plane.binary(program), *flags])


def etcd_flags(plane: ControlPlane) -> list[str]:
    """TLS on both ports, clients by certificate; no fsync, since the data need not outlive the machine."""
    client, peer = (f"https://{LOOPBACK}:{plane.ports[port]}" for port in ("etcd", "etcd-peer"))
    pair, ca = _pair(plane, "etcd"), plane.ca_cert
    return [
        "--name=default",
        f"--data-dir={plane.run_dir / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        f"--cert-file={pair.cert}",
        f"--key-file={pair.key}",
        f"--trusted-ca-file={ca}",
        "--client-cert-auth",
        f"--peer-cert-file={pair.cert}",
        f"--peer-key-file={pair.key}",
        f"--peer-trusted-ca-file={ca}",
        "--peer-client-cert-auth",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def apiserver_flags(plane: ControlPlane) -> list[str]:
    """Users by client certificate, RBAC and the Node authorizer, every write in the audit log."""
    serving, etcd, kubelet = (
        _pair(plane, file) for file in ("kube-apiserver", "etcd-client", "kubelet-client")
    )
    tokens = plane.authority.folder / "service-accounts.key"
    return [
        f"--bind-address={plane.address}",
        f"--advertise-address={plane.address}",
        f"--secure-port={plane.port}",
        # An Endpoints object must not hold a loopback address; there are no pods that could use it either.
        *(["--endpoint-reconciler-type=none"] if plane.address == LOOPBACK else []),
        f"--tls-cert-file={serving.cert}",
        f"--tls-private-key-file={serving.key}",
        f"--client-ca-file={plane.ca_cert}",
        f"--etcd-servers=https://{LOOPBACK}:{plane.ports['etcd']}",
        f"--etcd-cafile={plane.ca_cert}",
        f"--etcd-certfile={etcd.cert}",
        f"--etcd-keyfile={etcd.key}",
        f"--service-cluster-ip-range={plane.service_cidr}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--kubelet-client-certificate={kubelet.cert}",
        f"--kubelet-client-key={kubelet.key}",
        f"--kubelet-certificate-authority={plane.ca_cert}",
        # Node names are in no DNS.
        "--kubelet-preferred-address-types=InternalIP",
        f"--service-account-issuer=https://kubernetes.default.svc.{plane.cluster_dns_domain}",
        f"--service-account-key-file={tokens}",
        f"--service-account-signing-key-file={tokens}",
        f"--audit-policy-file={_AUDIT_POLICY}",
        f"--audit-log-path={plane.audit_log}",
        # One file: whoever counts writes must not miss those before a rotation.
        "--audit-log-maxsize=4096",
        "--profiling=false",
    ]


def controller_manager_flags(plane: ControlPlane, kubeconfig: Path, node_grace_s: int) -> list[str]:
    """All controllers, each under its own service account."""
    ca = plane.authority.pair
    return [
        *_controller_flags(plane, "kube-controller-manager", kubeconfig),
        "--use-service-account-credentials",
        f"--service-account-private-key-file={plane.authority.folder / 'service-accounts.key'}",
        f"--root-ca-file={plane.ca_cert}",
        f"--cluster-signing-cert-file={ca.cert}",
        f"--cluster-signing-key-file={ca.key}",
        f"--node-monitor-grace-period={node_grace_s}s",
        # Its default of 15 s is most of the time that anything with an HPA takes here.
        "--horizontal-pod-autoscaler-sync-period=2s",
        # Its default lies below /usr/libexec.
        f"--flex-volume-plugin-dir={plane.run_dir / 'volume-plugins'}",
    ]


def scheduler_flags(plane: ControlPlane, kubeconfig: Path) -> list[str]:
    """The default profile."""
    return _controller_flags(plane, "kube-scheduler", kubeconfig)


def _controller_flags(plane: ControlPlane, program: str, kubeconfig: Path) -> list[str]:
    pair = plane.authority.serving(program, ["localhost", LOOPBACK])
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--client-ca-file={plane.ca_cert}",
        # There is no front proxy whose certificate could be looked up.
        "--authentication-skip-lookup",
        "--leader-elect=false",
        # The defaults make a thousand nodes take minutes; the API server's own fairness is the limit here.
        "--kube-api-qps=300",
        "--kube-api-burst=600",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={plane.ports[program]}",
        f"--tls-cert-file={pair.cert}",
        f"--tls-private-key-file={pair.key}",
        "--profiling=false",
    ]


def _pair(plane: ControlPlane, file: str) -> KeyPair:
    folder = plane.authority.folder
    return KeyPair(folder / f"{file}.crt", folder / f"{file}.key")

"""Renders the configuration of containerd, the pod network, kubelet, kube-proxy and CoreDNS. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev.cluster.network.subnets import AddressPlan
from dev.cluster.nodes.pools import Pool

KUBELET_PORT = 10250


@dataclass(frozen=True)
class NodeFiles:
    """Where one node keeps its files: `run` lies in the run folder, `store` (image store) in the cache folder.

    Names are short because unix sockets lie below: their whole path may have 107 characters.
    """

    run: Path
    store: Path

    @property
    def socket(self) -> Path:
        """containerd's socket."""
        return self.run / "c.sock"

    @property
    def kubelet_root(self) -> Path:
        """The kubelet's root folder (pod volumes, sockets)."""
        return self.run / "k"

    @property
    def containerd_config(self) -> Path:
        """containerd's configuration file."""
        return self.run / "containerd.toml"

    @property
    def kubelet_config(self) -> Path:
        """The kubelet's configuration file."""
        return self.run / "kubelet.json"


def containerd_toml(files: NodeFiles, pause_image: str) -> str:
    """containerd 1.6 to 2.x: everything below the node's own folders, so that several run side by side.

    `restrict_oom_score_adj` lets it run without CAP_SYS_RESOURCE, where every sandbox would fail otherwise.
    AppArmor is off because a profile that containerd loads would stay in the kernel.
    """
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""version = 2
root = {_toml(files.store)}
state = {_toml(files.run / "state")}
disabled_plugins = ["io.containerd.internal.v1.restart", "io.containerd.tracing.processor.v1.otlp"]

[grpc]
address = {_toml(files.socket)}

[plugins."io.containerd.internal.v1.opt"]
path = {_toml(files.store / "opt")}

[{cri}]
sandbox_image = {_toml(pause_image)}
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
disable_apparmor = true

[{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[{cri}.containerd.runtimes.runc.options]
Root = {_toml(files.run / "runc")}
SystemdCgroup = false

[{cri}.cni]
bin_dir = "/usr/lib/cni"
conf_dir = {_toml(files.run / "cni")}
"""


def cni_conflist(plan: AddressPlan, index: int, files: NodeFiles) -> str:
    """The pod network of node `index`: one bridge, addresses from the node's /24, hairpin for own Services."""
    plugin = {
        "type": "bridge",
        "bridge": plan.pod_bridge(index),
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": str(files.run / "ipam"),
            "ranges": [[{"subnet": str(plan.pods_of(index))}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    return json.dumps({"cniVersion": "1.0.0", "name": plan.tag, "plugins": [plugin]}, indent=1)


def kubelet_config(
    plan: AddressPlan,
    index: int,
    files: NodeFiles,
    pool: Pool,
    *,
    cgroup_root: str,
    client_ca: Path,
    serving_cert: Path,
    serving_key: Path,
    domain: str,
) -> str:
    """A KubeletConfiguration: own address, cgroup and folders, so that several kubelets share one machine.

    Images are imported and can never be pulled again, so their garbage collection stays off.
    """
    config: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": str(plan.node(index)),
        "port": KUBELET_PORT,
        "healthzPort": 0,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup_root,
        "failCgroupV1": False,
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "containerRuntimeEndpoint": f"unix://{files.socket}",
        "podLogsDir": str(files.run / "logs"),
        "volumePluginDir": str(files.run / "volume-plugins"),
        "tlsCertFile": str(serving_cert),
        "tlsPrivateKeyFile": str(serving_key),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(client_ca)},
        },
        "authorization": {"mode": "Webhook"},
        "clusterDomain": domain,
        "clusterDNS": [str(plan.control_plane)],
        "resolvConf": "",
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "registerWithTaints": [
            {"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in pool.taints
        ],
    }
    return json.dumps(config, indent=1)


def kube_proxy_config(
    plan: AddressPlan, kubeconfig: Path, first_node: str, health_port: int, metrics_port: int
) -> str:
    """A KubeProxyConfiguration in nftables mode; one kube-proxy serves all nodes of the machine.

    It leaves the machine's connection tracking limits alone.
    """
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "clusterCIDR": str(plan.network),
        "hostnameOverride": first_node,
        "nodePortAddresses": [str(plan.nodes)],
        "healthzBindAddress": f"127.0.0.1:{health_port}",
        "metricsBindAddress": f"127.0.0.1:{metrics_port}",
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
    return json.dumps(config, indent=1)


def corefile(plan: AddressPlan, kubeconfig: Path, domain: str) -> str:
    """CoreDNS: names of the cluster from its API; every other name does not exist, since pods reach nothing outside.

    Two server blocks, because within one CoreDNS asks `template` before `kubernetes`.
    """
    address = plan.control_plane
    return f"""{domain}:53 {{
    bind {address}
    errors
    kubernetes {domain} {{
        kubeconfig {kubeconfig}
        ttl 5
    }}
    loadbalance
}}
.:53 {{
    bind {address}
    errors
    template ANY ANY . {{
        rcode NXDOMAIN
    }}
}}
"""


def kubelet_argv(
    program: Path,
    plan: AddressPlan,
    index: int,
    files: NodeFiles,
    name: str,
    labels: Mapping[str, str],
    kubeconfig: Path,
) -> Sequence[str]:
    """The kubelet's command line: what its configuration file cannot say."""
    return [
        str(program),
        f"--config={files.kubelet_config}",
        f"--kubeconfig={kubeconfig}",
        f"--hostname-override={name}",
        f"--node-ip={plan.node(index)}",
        f"--node-labels={','.join(f'{key}={value}' for key, value in sorted(labels.items()))}",
        f"--root-dir={files.kubelet_root}",
        f"--cert-dir={files.kubelet_root / 'pki'}",
    ]


def _toml(path: Path | str) -> str:
    return json.dumps(str(path))

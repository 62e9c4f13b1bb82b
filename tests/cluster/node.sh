# The parts of a node: packages, network, containerd, kubelet, scheduler and proxy, and how all of it goes away again.
# Sourced by `node` after lib.sh and control-plane.sh.
# shellcheck shell=bash

bridge=writ-pods        # the pods' network
sink=writ-services      # where packets for Services end that kube-proxy does not know (yet)
gateway=10.244.0.1      # the machine's address on the pods' network; the API server listens there
pods=10.244.0.0/24
services=10.96.0.0/16
remembered=/run/writ-node # what the machine was like before; there while a node is up, or was killed

# What kubelet, kube-proxy and the network plugins set or make at fixed places.
settings="net.ipv4.ip_forward net.ipv4.conf.all.route_localnet vm.overcommit_memory vm.panic_on_oom kernel.panic
  kernel.panic_on_oops kernel.keys.root_maxkeys kernel.keys.root_maxbytes"
places="/var/lib/kubelet /var/log/pods /var/log/containers /var/lib/cni /run/containerd /opt/containerd"

only_one_node() {
  exec 8>/run/writ-node.lock
  # One that is on its way out may take a few seconds.
  flock -w 30 8 || die "another node of the test cluster runs on this machine"
}

install_packages() {
  local missing=() program package
  while read -r program package; do
    [ -e "$program" ] || command -v "$program" >/dev/null || missing+=("$package")
  done <<END
containerd containerd
runc runc
/usr/lib/cni/bridge containernetworking-plugins
iptables iptables
ip iproute2
sysctl procps
musl-gcc musl-tools
openssl openssl
END
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || die "needs ${missing[*]} (as Debian names them)"
  say "installing ${missing[*]}"
  {
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
  } >&2 </dev/null
  # The node starts a containerd of its own. One that the package has just started serves nobody.
  if [[ " ${missing[*]} " == *" containerd "* ]] && [ -d /run/systemd/system ]; then
    systemctl disable --now containerd >&2 || true
  fi
}

refuse_other_node() {
  local table
  for table in nat filter; do
    if iptables -w -t "$table" -S 2>/dev/null | grep -q '^-N KUBE-'; then
      die "a Kubernetes node is at home on this machine (iptables has KUBE- chains)"
    fi
  done
  if [ -n "$(find_cgroups)" ]; then
    die "a Kubernetes node is at home on this machine (there are cgroups named kubepods)"
  fi
  if ip route show "$pods" | grep -q . || ip route show "$services" | grep -q .; then
    die "$pods or $services is in use on this machine"
  fi
}

remember_machine() {
  local setting place
  {
    echo "dir=$dir"
    for setting in $settings; do
      [ ! -e "/proc/sys/${setting//.//}" ] || echo "set $setting=$(cat "/proc/sys/${setting//.//}")"
    done
    for place in $places; do
      [ -e "$place" ] || echo "made $place"
    done
  } >"$remembered.new"
  mv "$remembered.new" "$remembered"
}

make_network() {
  ip link add "$bridge" type bridge
  ip address add "$gateway/24" dev "$bridge"
  ip link set "$bridge" up
  # No packet for a Service ever leaves the machine, not even before kube-proxy has its rules.
  ip link add "$sink" type bridge
  ip link set "$sink" up
  ip route add "$services" dev "$sink"
  echo 1 >/proc/sys/net/ipv4/ip_forward
}

start_containerd() {
  mkdir -p "$dir/cni"
  cat >"$dir/cni/10-writ.conflist" <<END
{
  "cniVersion": "0.4.0",
  "name": "writ",
  "plugins": [
    {
      "type": "bridge", "bridge": "$bridge", "isGateway": true, "hairpinMode": true,
      "ipam": {
        "type": "host-local", "dataDir": "$dir/cni-addresses",
        "ranges": [[{"subnet": "$pods"}]], "routes": [{"dst": "0.0.0.0/0"}]
      }
    }
  ]
}
END
  cat >"$dir/containerd.toml" <<END
version = 2
root = "$dir/containerd"
state = "$dir/containerd-state"
[grpc]
address = "$dir/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "docker.io/library/writ-pause:test"
netns_mounts_under_state_dir = true
# Inside a container, lowering the score below one's own is refused, and every sandbox would die of it.
restrict_oom_score_adj = true
# DIR/registries/REGISTRY/hosts.toml tells where images of a registry really come from.
[plugins."io.containerd.grpc.v1.cri".registry]
config_path = "$dir/registries"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "$dir/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
# Copies instead of layers: works on any file system, and the images have one small layer.
snapshotter = "native"
default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
END
  cat >"$dir/load" <<END
#!/bin/sh
# Loads an OCI archive into the node.
exec ctr --address "$dir/containerd.sock" --namespace k8s.io images import "\$1"
END
  chmod +x "$dir/load"
  start containerd containerd --config "$dir/containerd.toml"
  await 30 containerd ctr --address "$dir/containerd.sock" version
  "$dir/load" "$dir/pause.tar" >&2
}

prepare_node() {
  leaf kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client extendedKeyUsage=clientAuth
  leaf kubelet-server /CN=localhost extendedKeyUsage=serverAuth subjectAltName=IP:127.0.0.1,DNS:localhost
  client kubelet /O=system:nodes/CN=system:node:localhost
  client scheduler /CN=system:kube-scheduler
  client proxy /CN=system:kube-proxy
  cat >"$dir/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
port: $((port + 5))
readOnlyPort: 0
healthzPort: $((port + 6))
tlsCertFile: $dir/certs/kubelet-server.crt
tlsPrivateKeyFile: $dir/certs/kubelet-server.key
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $dir/certs/ca.crt}}
authorization: {mode: Webhook}
containerRuntimeEndpoint: unix://$dir/containerd.sock
podLogsDir: $dir/logs/pods
volumePluginDir: $dir/volume-plugins
resolvConf: /dev/null
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
localStorageCapacityIsolation: false
# A full disk of the machine is not the test's business.
evictionHard: {memory.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%"}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
END
  cat >"$dir/proxy.yaml" <<END
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
bindAddress: 127.0.0.1
healthzBindAddress: 127.0.0.1:$((port + 7))
metricsBindAddress: 127.0.0.1:$((port + 8))
hostnameOverride: localhost
clusterCIDR: $pods
clientConnection: {kubeconfig: $dir/proxy.kubeconfig}
conntrack: {maxPerCore: 0, min: 0}
# Masquerade everything: the answer of a pod on the same bridge would otherwise go past the rules that changed the question.
iptables: {masqueradeAll: true, localhostNodePorts: false, minSyncPeriod: 100ms}
END
}

start_node() {
  start kube-scheduler "$bin/kube-scheduler" --kubeconfig="$dir/scheduler.kubeconfig" --leader-elect=false \
    --bind-address=127.0.0.1 --secure-port=$((port + 4)) --cert-dir="$dir/certs/scheduler" --profiling=false
  start kube-proxy "$bin/kube-proxy" --config="$dir/proxy.yaml"
  start kubelet "$bin/kubelet" --config="$dir/kubelet.yaml" --kubeconfig="$dir/kubelet.kubeconfig" \
    --root-dir="$dir/kubelet" --cert-dir="$dir/certs/kubelet" --hostname-override=localhost --node-ip="$gateway"
  await 60 "the node" "${kubectl[@]}" wait --for=condition=Ready node/localhost --timeout=2s
  # Services lead somewhere once the proxy has written its rules.
  await 30 "kube-proxy" iptables -w -t nat -L KUBE-SERVICES -n
}

# --- and away with it ---------------------------------------------------------------------------------------------

# Removes everything that a node on this machine has made, its processes first. The same way whether it ends in order, fails
# half way or was killed; nothing happens if there is nothing. What is gone already is no reason to stop.
sweep() {
  [ ! -e "$remembered" ] || (set +eo pipefail && sweep_up)
}

sweep_up() {
  local gone line
  gone=$(sed -n 's/^dir=//p' "$remembered")
  # In the order of who would start whom again.
  end_processes "$gone"
  remove_mounts "$gone"
  remove_cgroups
  ip link delete "$bridge" 2>/dev/null || true
  ip link delete "$sink" 2>/dev/null || true
  remove_chains iptables
  remove_chains ip6tables
  while read -r line; do
    case $line in
      "set "*) sysctl -q -w "${line#set }" 2>/dev/null || true ;;
      "made "*) rm -rf --one-file-system "${line#made }" ;;
    esac
  done <"$remembered"
  [ "$gone" = "${dir:-}" ] || rm -rf --one-file-system "$gone"
  rm -f "$remembered"
}

# The programs of the node name its folder on their command lines; the pods' are in its cgroups.
end_processes() { # folder
  local round pid left
  for round in $(seq 50); do
    left=no
    for pid in $(programs_of "$1") $(find_cgroups | while read -r group; do cat "$group/cgroup.procs" 2>/dev/null; done); do
      ! kill -KILL "$pid" 2>/dev/null || left=yes
    done
    [ "$left" = yes ] || return 0
    sleep 0.1
  done
  say "processes of $1 do not end after $round tries"
}

programs_of() { # folder
  local file program
  grep -laF "$1/" /proc/[0-9]*/cmdline 2>/dev/null | while read -r file; do
    program=$(readlink "${file%cmdline}exe") || continue
    case ${program##*/} in
      containerd | containerd-shim-runc-v2 | runc | kubelet | kube-proxy | kube-scheduler | kube-apiserver | kube-controller-manager | etcd)
        file=${file#/proc/}
        echo "${file%/cmdline}"
        ;;
    esac
  done
}

# The pods' cgroups: `kubepods` at the top of each hierarchy and whatever is below. Those further down are of clusters that
# run in containers.
find_cgroups() {
  awk '$5 ~ "^/sys/fs/cgroup" && / - cgroup2? / { print $5 "/kubepods" }' /proc/self/mountinfo |
    while read -r top; do find "$top" -depth -type d 2>/dev/null; done
}

remove_cgroups() {
  local group
  for _ in $(seq 20); do
    find_cgroups | while read -r group; do rmdir "$group" 2>/dev/null || true; done
    [ -n "$(find_cgroups)" ] || return 0
    sleep 0.1
  done
}

remove_mounts() { # folder
  local mount
  for _ in 1 2 3; do
    awk -v folder="$1/" 'index($5, folder) == 1 { print $5 }' /proc/self/mountinfo | tac | while read -r mount; do
      umount "$mount" 2>/dev/null || umount --lazy "$mount" 2>/dev/null || true
    done
  done
}

remove_chains() { # iptables or ip6tables
  local table rule chain
  command -v "$1" >/dev/null || return 0
  for table in mangle nat filter; do
    "$1" -w -t "$table" -S 2>/dev/null | grep -E '^-A (PREROUTING|INPUT|FORWARD|OUTPUT|POSTROUTING) .*-j (KUBE|CNI)-' |
      while read -r rule; do
        # The rule is text as a shell would read it: comments in it are quoted.
        eval "$1 -w -t $table -D ${rule#-A }" || true
      done
    for flag in -F -X; do
      "$1" -w -t "$table" -S 2>/dev/null | sed -n 's/^-N \(\(KUBE\|CNI\)-[^ ]*\)$/\1/p' | while read -r chain; do
        "$1" -w -t "$table" "$flag" "$chain" || true
      done
    done
  done
}

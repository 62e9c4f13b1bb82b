# Starts and stops the three programs of a control plane. Sourced by `control-plane` and `node` after lib.sh.
# The caller sets `dir` (made by own_folder), `port` (by claim_ports) and `bin`, the folder of the programs.
# shellcheck shell=bash

# Certificates and kubeconfigs for a control plane at an address.
prepare_control_plane() { # address
  require openssl openssl
  server=https://$1:$((port + 2))
  mkdir -p "$dir/certs"
  cat >"$dir/ports" <<END
apiserver=$((port + 2))
webhook=$((port + 10))
admin=$((port + 11))
second_webhook=$((port + 12))
second_admin=$((port + 13))
END
  authority ca
  leaf apiserver /CN=kube-apiserver extendedKeyUsage=serverAuth \
    "subjectAltName=IP:127.0.0.1,IP:10.96.0.1,IP:$1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc"
  client admin /O=system:masters/CN=admin
  client controller-manager /CN=system:kube-controller-manager
  key service-accounts
  openssl pkey -in "$dir/certs/service-accounts.key" -pubout -out "$dir/certs/service-accounts.pub"
}

start_control_plane() { # address, further flags of the API server...
  local etcd=http://127.0.0.1:$port peer=http://127.0.0.1:$((port + 1))
  kubectl=("$bin/kubectl" --kubeconfig "$dir/admin.kubeconfig" --request-timeout=5s)

  # etcd without fsync: a test cluster that lives for minutes has nothing to lose in a power cut.
  start etcd "$bin/etcd" --data-dir "$dir/etcd" --unsafe-no-fsync --logger=zap --log-level=warn \
    --name=writ --initial-cluster="writ=$peer" --initial-advertise-peer-urls="$peer" --listen-peer-urls="$peer" \
    --listen-client-urls="$etcd" --advertise-client-urls="$etcd"
  start_api_server "$@"

  start kube-controller-manager "$bin/kube-controller-manager" --kubeconfig="$dir/controller-manager.kubeconfig" \
    --service-account-private-key-file="$dir/certs/service-accounts.key" --root-ca-file="$dir/certs/ca.crt" \
    --use-service-account-credentials=true --leader-elect=false --profiling=false \
    --bind-address=127.0.0.1 --secure-port=$((port + 3)) --cert-dir="$dir/certs/controller-manager"
  await 60 "the controller manager" "${kubectl[@]}" --namespace=default get serviceaccount default
}

start_api_server() { # address, further flags...
  local address=$1
  api_server=("$@")
  shift
  start kube-apiserver "$bin/kube-apiserver" --etcd-servers="http://127.0.0.1:$port" \
    --bind-address="$address" --advertise-address="$address" --secure-port=$((port + 2)) \
    --tls-cert-file="$dir/certs/apiserver.crt" --tls-private-key-file="$dir/certs/apiserver.key" \
    --client-ca-file="$dir/certs/ca.crt" --authorization-mode=Node,RBAC --allow-privileged=true \
    --service-cluster-ip-range=10.96.0.0/16 --service-account-issuer=https://kubernetes.default.svc \
    --service-account-signing-key-file="$dir/certs/service-accounts.key" \
    --service-account-key-file="$dir/certs/service-accounts.pub" --profiling=false "$@"
  await 60 "the API server" "${kubectl[@]}" get --raw=/readyz
}

# Kills the API server and starts it again, as a crash would.
restart_api_server() {
  stop kube-apiserver
  start_api_server "${api_server[@]}"
  echo restarted
}

# The name that others look for appears last: whoever finds it finds a cluster that answers.
announce() {
  cp -p "$dir/admin.kubeconfig" "$dir/kubeconfig"
  echo "ready $dir/kubeconfig"
}

# At once and without ceremony: nothing of it is kept.
stop_control_plane() { stop kube-controller-manager kube-apiserver etcd stdin; }

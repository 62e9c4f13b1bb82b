# Shared by the scripts of the test cluster: ports, certificates, kubeconfigs, and programs that never outlive their script.
# Sourced, not run. The caller sets `dir`, the folder that holds everything of one cluster.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
me=tests/cluster/$(basename "$0")
names=() pids=() # the programs that `start` started, in order

# What is downloaded may come through a proxy; whatever is of the cluster must not: this machine, the addresses of pods and
# Services (node.sh, control-plane.sh), and the names by which the API server calls webhooks. Some read only addresses, some
# only one of the two variables.
direct=localhost,127.0.0.1,127.0.0.0/8,::1,10.244.0.1,10.244.0.0/24,10.96.0.0/16,.svc,.cluster.local
case ${NO_PROXY:-${no_proxy:-}} in
  '*' | *"$direct") ;;
  '') export NO_PROXY=$direct no_proxy=$direct ;;
  *) export NO_PROXY=${NO_PROXY:-$no_proxy},$direct && export no_proxy=$NO_PROXY ;;
esac

say() { echo "$me: $*" >&2; }
die() {
  say "$*"
  exit 2
}

require() { # program, Debian package
  command -v "$1" >/dev/null || die "needs $1 (Debian: apt-get install $2)"
}

# Whether a process is a script of the test cluster: the number in a file that was left behind may be anybody's by now.
ours() { # pid
  local line
  [[ $1 =~ ^[0-9]+$ ]] || return 1
  if [ -e /proc/self/cmdline ]; then
    line=$({ tr '\0' ' ' <"/proc/$1/cmdline"; } 2>/dev/null) || return 1
  elif command -v ps >/dev/null; then
    line=$(ps -o args= -p "$1") || return 1
  else
    die "cannot tell what process $1 is without ps (Debian: apt-get install procps)"
  fi
  [[ $line == *tests/cluster/* ]]
}

# --- programs -----------------------------------------------------------------------------------------------------

# The kernel ends a program when its script dies, even by kill -9. Without setpriv (not Linux) only that case is lost.
bound=()
if setpriv --pdeathsig KILL true 2>/dev/null; then
  bound=(setpriv --pdeathsig KILL)
fi

start() { # name, command...: runs it in the background with its log in $dir/logs
  local name=$1
  shift
  # 3 is the script's standard input and 8 a lock of its own: no program may hold on to them.
  "${bound[@]}" "$@" >>"$dir/logs/$name.log" 2>&1 </dev/null 3<&- 8>&- &
  names+=("$name")
  pids+=("$!")
}

# Fails once a program has ended: says which one, and shows the end of its log.
all_alive() {
  local i
  for i in "${!pids[@]}"; do
    if ! kill -0 "${pids[i]}" 2>/dev/null; then
      [ "${names[i]}" = stdin ] && exit 0
      say "${names[i]} ended; the end of its log:"
      tail -n 20 "$dir/logs/${names[i]}.log" >&2
      return 1
    fi
  done
}

# Ends the script when its standard input does, so that it cannot outlive whoever started it.
follow_stdin() {
  exec 3<&0
  while read -r _; do :; done <&3 &
  names+=(stdin)
  pids+=("$!")
}

# Waits until a signal comes, standard input ends (exit 0) or a program dies (exit 1).
hold() {
  while all_alive; do
    wait -n "${pids[@]}" || true
  done
  exit 1
}

stop() { # name...: ends these programs at once, the last named last
  local name i
  for name in "$@"; do
    for i in "${!names[@]}"; do
      if [ "${names[i]}" = "$name" ]; then
        kill -KILL "${pids[i]}" 2>/dev/null || true
        wait "${pids[i]}" 2>/dev/null || true
        unset "names[i]" "pids[i]"
      fi
    done
  done
}

await() { # seconds, what, command...: until the command succeeds
  local seconds=$1 what=$2 deadline
  deadline=$((SECONDS + seconds))
  shift 2
  until "$@" >/dev/null 2>&1; do
    all_alive || exit 1
    if [ "$SECONDS" -ge "$deadline" ]; then
      say "$what: not within $seconds s; what it says:"
      "$@" >&2 || true
      local log
      for log in "$dir"/logs/*.log; do
        echo "--- ${log##*/}" >&2
        tail -n 15 "$log" >&2
      done
      exit 1
    fi
    sleep 0.1
  done
}

# --- the folder ---------------------------------------------------------------------------------------------------

# Makes $dir and sees to it that it goes, with everything that runs, however the script ends. `take_down` is the
# caller's: it stops the programs.
own_folder() {
  if [ -e "$dir" ] && [ -n "$(ls -A "$dir")" ]; then
    die "$dir is not empty; another cluster may be running there (make cluster-stop)"
  fi
  mkdir -p "$dir/logs"
  dir=$(cd "$dir" && pwd)
  echo $$ >"$dir/pid"
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  trap leave EXIT
}

leave() {
  local status=$?
  trap '' INT TERM HUP
  trap - EXIT
  set +e
  take_down
  if [ -n "${WRIT_KEEP_LOGS:-}" ]; then
    mkdir -p "$WRIT_KEEP_LOGS" && cp -r "$dir/logs" "$WRIT_KEEP_LOGS/$(basename "$dir")-$$"
  fi
  [ ! -x "$dir" ] || rm -rf "$dir"
  exit "$status"
}

# --- ports --------------------------------------------------------------------------------------------------------

listening() { (: <>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# Claims a block of twenty ports below the range that the kernel hands out; the claim is a lock that ends with the
# script, so clusters side by side never meet. Sets `port` to the first one.
claim_ports() {
  local claims="${TMPDIR:-/tmp}/writ-ports-$(id -u)" try offset free
  mkdir -p "$claims"
  for try in $(seq 200); do
    port=$((20000 + (RANDOM % 600) * 20))
    exec {claim}>"$claims/$port"
    if flock -n "$claim"; then
      free=yes
      for offset in $(seq 0 19); do
        if listening $((port + offset)); then
          free=no
          break
        fi
      done
      [ "$free" = no ] || return 0
    fi
    exec {claim}>&-
  done
  die "found no free block of ports in $try tries"
}

# --- certificates -------------------------------------------------------------------------------------------------

key() { # name
  openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$dir/certs/$1.key" 2>/dev/null ||
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$dir/certs/$1.key" 2>/dev/null
}

authority() { # name
  key "$1"
  openssl req -new -key "$dir/certs/$1.key" -subj "/CN=$1" -out "$dir/certs/$1.csr"
  openssl x509 -req -in "$dir/certs/$1.csr" -signkey "$dir/certs/$1.key" -days 365 -out "$dir/certs/$1.crt" 2>/dev/null \
    -extfile <(printf '%s\n' basicConstraints=critical,CA:TRUE keyUsage=critical,keyCertSign,cRLSign subjectKeyIdentifier=hash)
}

leaf() { # name, subject, extension lines...: signed by the authority `ca`
  local name=$1 subject=$2
  shift 2
  key "$name"
  openssl req -new -key "$dir/certs/$name.key" -subj "$subject" -out "$dir/certs/$name.csr"
  openssl x509 -req -in "$dir/certs/$name.csr" -CA "$dir/certs/ca.crt" -CAkey "$dir/certs/ca.key" -CAcreateserial \
    -days 365 -out "$dir/certs/$name.crt" 2>/dev/null \
    -extfile <(printf '%s\n' basicConstraints=critical,CA:FALSE keyUsage=critical,digitalSignature "$@")
}

client() { # name, subject: a certificate that a program shows to the API server, and a kubeconfig with it
  leaf "$1" "$2" extendedKeyUsage=clientAuth
  kubeconfig "$dir/$1.kubeconfig" "$server" "$dir/certs/ca.crt" \
    "client-certificate-data: $(base64 <"$dir/certs/$1.crt" | tr -d '\n')" \
    "client-key-data: $(base64 <"$dir/certs/$1.key" | tr -d '\n')"
}

kubeconfig() { # file, server, file of the authority, user lines...
  local file=$1 address=$2 authority=$3
  shift 3
  (
    umask 077
    cat >"$file"
  ) <<END
apiVersion: v1
kind: Config
clusters:
  - name: writ-test
    cluster:
      server: $address
      certificate-authority-data: $(base64 <"$authority" | tr -d '\n')
users:
  - name: writ-test
    user:
$(printf '      %s\n' "$@")
contexts:
  - name: writ-test
    context: {cluster: writ-test, user: writ-test}
current-context: writ-test
END
}

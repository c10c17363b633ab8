#!/usr/bin/env bash
# A SLURM of three nodes, all of them this machine: slurm.sh FOLDER. Prints "ready" once it takes jobs, and ends them and
# itself when its input ends. Everything that it writes is in FOLDER, and SLURM_CONF=FOLDER/slurm.conf leads commands to
# it. It listens on the loopback interface only. Needs root and Debian's packages slurm-wlm and munge.
set -euo pipefail
folder="$(realpath "$1")"
export SLURM_CONF="$folder/slurm.conf"
daemons=()

start() {
    "$@" >> "$folder/output.txt" 2>&1 &
    daemons+=($!)
}

takes_jobs() { [[ "$(timeout 2 sinfo --noheader --Node --format=%t | sort | uniq --count)" == *" 4 idle" ]]; }
has_no_job() { [[ -z "$(timeout 2 squeue --noheader)" ]]; }

# Wait up to half a minute until a command succeeds.
wait_until() {
    local end=$((SECONDS + 30))
    while ((SECONDS < end)); do
        if "$@" 2> /dev/null; then return; fi
        sleep 0.1
    done
    echo "slurm.sh: waited in vain: $*; see $folder" >&2
    return 1
}

stop() {
    timeout 5 scancel --user=root && wait_until has_no_job
    kill "${daemons[@]}"
    wait
}
trap 'stop 2> /dev/null' EXIT
trap exit HUP INT TERM

read -r -a ports < <(python3 -c '
import socket
servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(4)]
print(*(server.getsockname()[1] for server in servers))')

# A job of "urgent" preempts one of "batch", which then starts again. Debian's SLURM refuses two nodes of one host, so
# nodes are named by addresses of the loopback interface. SLURM schedules each second, not each minute.
cat > "$SLURM_CONF" << EOF
ClusterName=test
SlurmctldHost=localhost
SlurmctldPort=${ports[0]}
SlurmctldPidFile=$folder/slurmctld.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmdLogFile=$folder/slurmd-%n.log
SlurmdSpoolDir=$folder/spool-%n
StateSaveLocation=$folder/state
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=127.0.0.1 Port=${ports[1]} NodeAddr=127.0.0.1 CPUs=2
NodeName=127.0.0.2 Port=${ports[2]} NodeAddr=127.0.0.1 CPUs=1
NodeName=127.0.0.3 Port=${ports[3]} NodeAddr=127.0.0.1 CPUs=1
PartitionName=batch Nodes=127.0.0.1 Default=YES PriorityTier=1
PartitionName=urgent Nodes=127.0.0.1 PriorityTier=2
PartitionName=pair Nodes=127.0.0.[2-3]
EOF

mkdir -p "$folder/state"
(umask 077 && head -c 128 /dev/urandom > "$folder/munge.key")
# With --force its socket may be in a folder that only root can enter.
start munged --foreground --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" \
    --pid-file="$folder/munged.pid" --seed-file="$folder/munged.seed" --log-file="$folder/munged.log"
wait_until test -S "$folder/munge.socket"
start slurmctld -D -c
for node in 127.0.0.{1..3}; do start slurmd -D -N "$node"; done
wait_until takes_jobs
echo ready
cat > /dev/null

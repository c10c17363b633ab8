#!/usr/bin/env bash
# A SLURM of this machine alone: slurm.sh FOLDER. Prints "ready" once it takes jobs, and ends them and itself when its
# input ends. Everything that it writes is in FOLDER, and SLURM_CONF=FOLDER/slurm.conf leads commands to it. It listens
# on the loopback interface only. Needs root and Debian's packages slurm-wlm and munge.
set -euo pipefail
folder="$(realpath "$1")"
export SLURM_CONF="$folder/slurm.conf"
daemons=()

start() {
    "$@" >> "$folder/output.txt" 2>&1 &
    daemons+=($!)
}

takes_jobs() { [[ "$(timeout 2 sinfo --noheader --format=%t --partition=batch)" == idle ]]; }
has_no_job() { [[ -z "$(timeout 2 squeue --noheader)" ]]; }

# Wait up to half a minute until a command succeeds.
wait_until() {
    for _ in {1..300}; do
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

read -r controller_port node_port < <(python3 -c '
import socket
servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(server.getsockname()[1] for server in servers))')

# A job of "urgent" preempts one of "batch", which then starts again. SLURM schedules each second, not each minute.
cat > "$SLURM_CONF" << EOF
ClusterName=test
SlurmctldHost=localhost
SlurmctldPort=$controller_port
SlurmctldPidFile=$folder/slurmctld.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdPort=$node_port
SlurmdPidFile=$folder/slurmd.pid
SlurmdLogFile=$folder/slurmd.log
SlurmdSpoolDir=$folder/spool
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
NodeName=localhost CPUs=2
PartitionName=batch Nodes=localhost Default=YES PriorityTier=1
PartitionName=urgent Nodes=localhost PriorityTier=2
EOF

mkdir -p "$folder/state"
(umask 077 && head -c 128 /dev/urandom > "$folder/munge.key")
# With --force its socket may be in a folder that only root can enter.
start munged --foreground --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" \
    --pid-file="$folder/munged.pid" --seed-file="$folder/munged.seed" --log-file="$folder/munged.log"
wait_until test -S "$folder/munge.socket"
start slurmctld -D -c
start slurmd -D -N localhost
wait_until takes_jobs
echo ready
cat > /dev/null

# Prints hardware evidence of this node before and after the command in the arguments, and the state of the GPUs during the command.
# Read-only. Each line is `burnin evidence: NODE MOMENT SOURCE TEXT`; the crate `measure` reads them. A probe takes at most 2 s: a source
# that does not respond is missing, and the command runs anyway. A process in the driver of a broken GPU may ignore even SIGKILL, so every
# wait here has a timeout. A source may fail, and the environment of the job may have set `errexit` (BASH_ENV, SHELLOPTS).
set +e
burnin_node=${BURNIN_NODE_NAME:-$(hostname)}
burnin_smi() { timeout -k 1 1.4 nvidia-smi "$@" 2>&1 || echo "nvidia-smi ended with status $?"; }
burnin_query() { burnin_smi "--query-gpu=$1" --format=csv,noheader,nounits; }
burnin_gpus() {
  local fields=index,uuid,serial,pci.bus_id,name,driver_version,vbios_version,persistence_mode,ecc.mode.current,mig.mode.current,power.limit
  local counters=pcie.link.width.current,ecc.errors.uncorrected.volatile.total,ecc.errors.corrected.volatile.total
  local rows=remapped_rows.correctable,remapped_rows.uncorrectable,remapped_rows.pending,remapped_rows.failure
  local text
  # Older drivers do not report the recommended recovery (before 570) or the state of the fabric (before 545).
  for counters in "$counters,$rows,fabric.state,gpu_recovery_action" "$counters,$rows,fabric.state" "$counters,$rows" "$counters"; do
    text=$(burnin_query "$fields,$counters")
    [[ $text == *'not a valid field'* ]] || break
  done
  printf 'fields %s\n%s\n' "$fields,$counters" "$text"
}
# Prints only broken links and counters other than 0. The lines of the GPUs show that the program responded.
burnin_links() { burnin_smi nvlink -s | grep -iE '^GPU|status|inactive'; }
burnin_link_errors() { burnin_smi nvlink -e | grep -vE ': 0$|^$'; }
# Prints counters other than 0, and the time, because the judge uses their increase per minute.
burnin_pcie() {
  printf 'at %d\n' "$(date +%s)"
  burnin_smi pci --getErrorCounters | grep -E '^GPU|REPLAY' | grep -v ': *0$'
}
burnin_ports() {
  local port=/sys/class/infiniband/*/ports/*
  grep -sH '' $port/{state,rate} $port/counters/{symbol_error,link_error_recovery,link_downed,port_rcv_errors,local_link_integrity_errors} |
    grep -v ':0$'
  grep -sH '^TOTAL_ERR_' /sys/bus/pci/devices/*/aer_dev_{fatal,nonfatal} | grep -v ' 0$'
}
burnin_kernel() {
  local text first refused=
  text=$(burnin_kernel_rows dmesg) || {
    # Container images have no journalctl, so the error of dmesg is printed too.
    first=${text%%$'\n'*}
    refused=${first#first }${first:+; }
    text=$(burnin_kernel_rows journalctl -k -b --no-pager -o short-iso)
  } || { first=${text%%$'\n'*}; printf 'unreadable %s\n' "$refused${first#first }"; return; }
  [[ $text == 'first '* && ${text:0:4000} != *'No journal files'* ]] || { printf 'unreadable %s\n' "${refused}the kernel log has no lines"; return; }
  first=${text%%$'\n'*}
  printf 'lines %d\n' "$(tail -n 1 <<<"$text")"
  burnin_time oldest "${first#first }"
  burnin_time newest "$(burnin_rows last)"
  burnin_matches other 200
  burnin_matches fault 1000
}
# Prints rows about the output of a command: its first lines, each fault, each other line of the driver, its last line, and the number of
# its lines. The log may have several MB, and sed reads it once. Headers of journalctl begin with `-- `.
burnin_kernel_rows() {
  local faults='NVRM: Xid |SXid \(|\[Hardware Error\]|AER: .*ncorrect|[Oo]ut of memory: Kill'
  timeout -k 1 1.4 "$@" 2>&1 | sed -nE "1,9{
/^-- /!{
h
s/^/first /p
g
}
}
/$faults/{
h
s/^/fault /p
g
b last
}
/NVRM: /{
h
s/^/other /p
g
}
:last
\${
s/^/last /p
=
}"
  return "${PIPESTATUS[0]}"
}
# Prints the rows of a kind in `text`. The builtin `printf` would write each line separately to a pipe.
burnin_rows() { sed -n "s/^$1 //p" <<<"$text"; }
# Prints the time of a line of the kernel log: `[    1.250000]`, or the first word of a line of journalctl.
burnin_time() {
  case $2 in
  '['*']'*) printf '%s %s\n' "$1" "${2%%]*}]" ;;
  *) printf '%s %s\n' "$1" "${2%% *}" ;;
  esac
}
# Prints the last rows of a kind, at most as many as the second argument, after their number and the number of all rows of this kind. Driver
# lines without a fault have a separate maximum and never displace faults.
burnin_matches() {
  local found
  found=$(grep -c "^$1 " <<<"$text")
  printf '%ss %d of %d\n' "$1" "$((found < $2 ? found : $2))" "$found"
  burnin_rows "$1" | tail -n "$2"
}
# Prints the bridges with enabled access control services above GPUs and RDMA devices, with the control register (PCI Express 7.7.11).
# Without root only the first 64 bytes of the configuration space can be read.
burnin_acs() {
  local device path bridge words at try seen=' ' on=
  for device in /sys/bus/pci/drivers/nvidia/*:* /sys/class/infiniband/*/device; do
    [[ -e $device ]] || continue
    path=$(readlink -f "$device")
    path=${path%/*}
    while bridge=${path##*/} && [[ $bridge =~ ^[0-9a-f]+:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$ && $seen != *" $bridge "* ]]; do
      seen+="$bridge "
      read -rd '' -a words < <(od -An -v -tx4 "$path/config" 2>/dev/null)
      ((${#words[@]} > 64)) || { printf 'acs=unreadable\n'; return; }
      # An unresponsive bridge reads as all ones, which would be an endless capability list.
      for ((at = 64, try = 0; at >= 64 && try < 64; try++)); do
        if [[ ${words[at]:4} == 000d ]]; then
          [[ ${words[at + 1]:0:4} == 0000 ]] || on+=" $bridge=${words[at + 1]:0:4}"
          break
        fi
        at=$((16#${words[at]:0:3} / 4))
      done
      path=${path%/*}
    done
  done
  case $seen in ' ') on=' no bridge' ;; *) on=${on:- off} ;; esac
  printf 'acs=%s\n' "${on# }"
}
# Requirements of DMA-BUF: the open kernel module of the GPUs, and a kernel whose RDMA can import buffers.
burnin_dma_buf() {
  local version=/proc/driver/nvidia/version symbols=/proc/kallsyms state=no
  if [[ -r $version ]]; then
    grep -q 'Open Kernel Module' "$version" && state=open || state=closed
    printf 'dma_buf/nvidia=%s\n' "$state"
  fi
  compgen -G '/sys/class/infiniband/*' >/dev/null || return
  state=no
  read -r _ 2>/dev/null <"$symbols" || state=unreadable
  ! grep -qs ' ib_umem_dmabuf_get' "$symbols" || state=yes
  printf 'dma_buf/rdma=%s\n' "$state"
}
# Version of the NCCL that a program of this environment loads: in the name of the file, or in its text. It is a separate source: reading
# the library from a slow file system may exceed the time limit, and the settings must be printed even then.
burnin_nccl() {
  local folder file='' version
  local -a folders
  IFS=: read -ra folders <<<"${LD_LIBRARY_PATH-}"
  for folder in ${folders[@]+"${folders[@]}"}; do
    [[ -z $folder || ! -e $folder/libnccl.so.2 ]] || { file=$folder/libnccl.so.2; break; }
  done
  [[ -n $file ]] || file=$(PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null | sed -n 's/.*libnccl\.so\.2 .*=> //p' | head -n 1)
  [[ -n $file ]] || return 0
  version=$(readlink -f "$file")
  version=${version##*/libnccl.so.}
  [[ $version == *.*.* ]] || version=$(timeout -k 1 0.8 grep -aom 1 'NCCL version [0-9][0-9.]*' "$file" 2>/dev/null)
  version=${version##* }
  printf 'nccl=%s\n' "${version:-unreadable}"
}
# Prints a setting. An empty value could not be read, for example because its program timed out.
burnin_setting() { printf '%s=%s\n' "$1" "${2:-unreadable}"; }
burnin_settings() {
  local file text
  burnin_setting kernel "$(uname -r)"
  for file in /sys/module/{nvidia,mlx5_core,ib_core,nvidia_peermem}/version; do
    [[ ! -r $file ]] || burnin_setting "$(basename "${file%/version}")" "$(<"$file")"
  done
  ! command -v nvidia-ctk >/dev/null || burnin_setting container_toolkit "$(timeout -k 1 0.8 nvidia-ctk --version 2>&1 | sed -n 's/.* version //p')"
  burnin_setting iommu "$(compgen -G '/sys/class/iommu/*' >/dev/null && echo on || echo off)"
  text=$(cat /sys/bus/pci/drivers/nvidia/*:*/iommu_group/type /sys/class/infiniband/*/device/iommu_group/type 2>/dev/null | sort -u)
  [[ -z $text ]] || burnin_setting iommu_type "${text//$'\n'/ }"
  burnin_acs
  burnin_dma_buf
  for file in /sys/class/infiniband/*/{fw_ver,board_id} /sys/class/infiniband/*/ports/*/pkeys/0; do
    [[ ! -r $file ]] || burnin_setting "infiniband/${file##*/infiniband/}" "$(<"$file")"
  done
  for file in /sys/class/net/*/device; do
    [[ ! -e $file ]] || burnin_setting "net/$(basename "${file%/device}")/mtu" "$(<"${file%device}mtu")"
  done
}
# Arguments: moment, sources. The sources run in parallel, and their lines are printed in order. Instead of the lines of a source that has
# not ended after 1.5 s, one line states this. Comments are outside the process substitution: older versions of bash read an apostrophe in
# them as a quotation mark. The job's standard error is closed there, because it must not stay open in a process that cannot be killed. No
# process writes to the pipe of the timer, so its `read` waits for the timeout. A line is cut to 4,000 bytes: several processes write to one
# pipe, and only a write of at most 4,096 bytes is atomic. In the locale C a character is a byte. `printf` writes each row separately and
# `read` requests each byte separately, so a row contains several lines. sed reads the rows until the timeout, or until each source has
# written its row `end`; sed counts these rows with dots. Versions of sed that read one row ahead require the empty row after `end`.
burnin_evidence() {
  local -x LC_ALL=C
  local moment=$1 source row text chunk descriptor timer='' number left separator=$'\x1f'
  local -A chunks ended
  local -a rows
  shift
  left=$#
  exec {descriptor}< <(
    exec 2>/dev/null
    { read -rt 1.5 _ <> <(:) || printf 'timeout\n\n'; } &
    printf 'timer %d\n' "$!"
    for source; do
      {
        text=$("burnin_$source" 2>&1)
        IFS=$'\n'
        set -f
        chunk=
        for row in $text; do
          row=${row:0:4000}
          [[ -z $chunk ]] || ((${#chunk} + ${#row} < 4000)) || { printf 'lines %s%s\n' "$source" "$chunk"; chunk=; }
          chunk+=$separator$row
        done
        [[ -z $chunk ]] || printf 'lines %s%s\n' "$source" "$chunk"
        printf 'end %s\n\n' "$source"
      } &
    done
  )
  text=$(sed -n -e '/^timeout$/q' -e p -e "/^end /{" -e x -e 's/$/./' -e "/^.\{$left\}\$/q" -e x -e '}' <&"$descriptor" 2>/dev/null)
  exec {descriptor}<&-
  local IFS=$'\n'
  set -f
  rows=($text)
  IFS=$separator
  for number in ${rows[@]+"${!rows[@]}"}; do
    row=${rows[number]}
    text=${row#* }
    case $row in
    'timer '*) timer=$text ;;
    'lines '*) chunks[${text%%"$separator"*}]+=$number$separator ;;
    'end '*) ended[$text]=1 left=$((left - 1)) ;;
    esac
  done
  ((left > 0)) || kill "$timer" 2>/dev/null
  for source; do
    if [[ -n ${ended[$source]-} ]]; then
      for number in ${chunks[$source]-}; do
        for text in ${rows[number]#*"$separator"}; do
          printf 'burnin evidence: %s %s %s %s\n' "$burnin_node" "$moment" "$source" "$text"
        done
      done
    else
      printf 'burnin evidence: %s %s %s no response within 1.5 s\n' "$burnin_node" "$moment" "$source"
    fi
  done
  set +f
}
burnin_end() { printf 'burnin evidence: %s %s end complete\n' "$burnin_node" "$1"; }
# Lowest and highest clock (MHz), highest temperature (C) and power (W), and all throttle reasons of each GPU.
burnin_samples() {
  local gpu clock heat power reasons
  local -A count low high hot watts why
  while IFS=', ' read -r gpu clock heat power reasons; do
    power=${power%.*}
    [[ $gpu$clock$heat$power =~ ^[0-9]+$ ]] || continue
    count[$gpu]=$((${count[$gpu]:-0} + 1))
    ((clock >= ${low[$gpu]:-$clock})) || low[$gpu]=$clock
    low[$gpu]=${low[$gpu]:-$clock}
    ((clock <= ${high[$gpu]:-0})) || high[$gpu]=$clock
    ((heat <= ${hot[$gpu]:-0})) || hot[$gpu]=$heat
    ((power <= ${watts[$gpu]:-0})) || watts[$gpu]=$power
    [[ ${why[$gpu]:-} == *"$reasons"* ]] || why[$gpu]+=${why[$gpu]:+|}$reasons
  done
  for gpu in "${!count[@]}"; do
    printf 'burnin evidence: %s during samples %s\n' "$burnin_node" "$gpu ${count[$gpu]} ${low[$gpu]} ${high[$gpu]:-0} ${hot[$gpu]:-0} ${watts[$gpu]:-0} ${why[$gpu]}"
  done
}
burnin_run() {
  local program= status sampler samples folded try stopped=0 begun lasted
  trap 'stopped=1; kill -TERM "$program" 2>/dev/null' TERM INT
  burnin_evidence before gpus links link_errors pcie ports kernel settings nccl
  burnin_end before
  ((stopped == 0)) || exit 143
  local fields=index,clocks.sm,temperature.gpu,power.draw,clocks_throttle_reasons.active
  exec {samples}< <(exec nvidia-smi "--query-gpu=$fields" --format=csv,noheader,nounits -l 5 2>&1)
  sampler=$!
  burnin_samples <&"$samples" &
  folded=$!
  exec {samples}<&-
  begun=$SECONDS
  "$@" <&0 &
  program=$!
  wait "$program"
  status=$?
  # After a signal, `wait` does not return the status of the program: wait again.
  while ((stopped)); do
    stopped=0
    wait "$program"
    status=$?
  done
  # `nvidia-smi -l` prints each sample at once, but handles SIGTERM only about once a second: SIGKILL ends it without losing a sample. A
  # program that ends before the first sample is sampled during the evidence after it.
  lasted=$((SECONDS - begun))
  ((lasted < 3)) || kill -KILL "$sampler" 2>/dev/null
  burnin_evidence after gpus links link_errors pcie ports kernel settings nccl
  ((lasted >= 3)) || sleep 0.25
  kill -KILL "$sampler" 2>/dev/null
  for try in {1..4}; do kill -0 "$folded" 2>/dev/null || break; sleep 0.05; done
  kill -KILL "$folded" 2>/dev/null
  burnin_end after
  # The program was ended by a signal: end this process by the same signal, so that the launcher's report is the same as without evidence.
  trap - TERM INT
  ((status <= 128)) || kill -s "$((status - 128))" "$BASHPID" 2>/dev/null
  exit "$status"
}

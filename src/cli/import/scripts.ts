/** What import runs on a machine, as root. Each checks first, or can be repeated; input is `$1` and so on. */
import { script } from '../../api/remote.ts';

/** Args: host and port of the API server. Prints `name=value` lines. */
export const INSPECT = script`
report() { printf "%s=%s\n" "$1" "$2"; }
( . /etc/os-release 2>/dev/null && report os "$ID $ID_LIKE" )
[ -d /run/systemd/system ] && report systemd yes
report arch "$(uname -m)"
report hostname "$(uname -n)"
report now "$(date +%s)"
report glibc "$(getconf GNU_LIBC_VERSION 2>/dev/null)"
for tool in bash tar gzip sha256sum flock timeout; do command -v $tool >/dev/null || report missing $tool; done
for folder in /opt /etc /var/lib; do
  mkdir -p $folder 2>/dev/null
  probe=$(mktemp $folder/.kubenode.XXXXXX 2>/dev/null) && rm -f "$probe" || report readonly $folder
done
set -- "$1" "$2" $(df -Pk /opt | tail -n 1)
report freeOptKiB "$6"
set -- "$1" "$2" $(df -Pk /var/lib | tail -n 1)
report freeVarKiB "$6"
timeout 5 bash -c "exec 3<>/dev/tcp/\$0/\$1" "$1" "$2" 2>/dev/null && report route yes
report slot "$(readlink /opt/kubenode/agent/current)"
report enabled "$(systemctl is-enabled kubenode-agent.service 2>/dev/null)"
report active "$(systemctl is-active kubenode-agent.service 2>/dev/null)"
for each in /opt/kubenode/agent/.import/*; do [ -x "$each/install" ] && report arrived "$(basename "$each")"; done
if [ -e /etc/kubenode/bootstrap.json ]; then
  report bootstrap yes
  for field in server namespace name uid; do
    report "bootstrap_$field" "$(sed -n "s/^ *\"$field\": \"\([^\"]*\)\".*/\1/p" /etc/kubenode/bootstrap.json | head -n 1)"
  done
fi
for each in current pending; do
  file=/var/lib/kubenode/identity/$each.json
  [ -e $file ] || continue
  report identity yes
  report identity_uid "$(sed -n "s/^ *\"machineUID\": \"\([^\"]*\)\".*/\1/p" $file | head -n 1)"
done
for each in /proc/[0-9]*; do
  read -r name 2>/dev/null <"$each/comm" || continue
  case $name in kubelet) report kubelet "$(basename "$each")" ;; esac
done
exit 0
`;

/** 95: another import has the lock, since two of one machine must not mix. 96: others may write where root runs programs; then it prints the folder. */
export const EXITS = { lock: 95, space: 93, damaged: 92, digest: 91, foreign: 94, start: 90, unsafe: 96 } as const;

/** Ends where others than root may write in a folder from which root runs programs. */
const ROOT_ONLY = script`
root_only() {
  [ -e "$1" ] || return 0
  set -- "$1" $(stat -L -c "%u %a" "$1")
  [ "$2" = 0 ] && [ $((0$3 & 022)) = 0 ] || { echo "$1"; exit 96; }
}
for each in /opt /opt/kubenode /opt/kubenode/agent; do root_only $each; done
each=$(readlink -m /opt/kubenode/agent)
while [ "$each" != / ]; do root_only "$each"; each=$(dirname "$each"); done
`;

/** Args: sha256 of the archive. Body: the archive, compressed by gzip. Nothing is left of one that is not whole. */
export const TRANSFER = script`${ROOT_ONLY}mkdir -p /opt/kubenode/agent
exec 9>/run/kubenode-import.lock
flock -w 20 9 || exit 95
folder=/opt/kubenode/agent/.import
rm -rf "$folder"
mkdir -p "$folder/new" || exit 93
end() { rm -rf "$folder"; exit "$1"; }
cat >"$folder/archive.gz" || end 93
gzip -t <"$folder/archive.gz" 2>/dev/null || end 92
gzip -dc <"$folder/archive.gz" >"$folder/archive" || end 93
rm -f "$folder/archive.gz"
printf "%s  %s\n" "$1" "$folder/archive" | sha256sum --status --strict -c - || end 91
tar -x -f "$folder/archive" -C "$folder/new" --no-same-owner || end 93
rm -f "$folder/archive"
sync "$folder/new"/* "$folder/new" || end 93
mv -T "$folder/new" "$folder/$1" || end 93
`;

/** Args: sha256 of the archive that arrived. Prints the slot. */
export const INSTALL = script`${ROOT_ONLY}exec 9>/run/kubenode-import.lock
flock -w 20 9 || exit 95
/opt/kubenode/agent/.import/"$1"/install --no-start 9>&- || exit $?
rm -rf /opt/kubenode/agent/.import
`;

/** Args: sha256 of the body, UID of the Machine, "hold" or nothing. Body: the bootstrap file. It never replaces the file of another Machine. */
export const BOOTSTRAP = script`
exec 9>/run/kubenode-import.lock
flock -w 20 9 || exit 95
file=/etc/kubenode/bootstrap.json
umask 077
mkdir -p -m 0755 /etc/kubenode
cat >"$file.new" || { rm -f "$file.new"; exit 93; }
printf "%s  %s\n" "$1" "$file.new" | sha256sum --status --strict -c - || { rm -f "$file.new"; exit 91; }
if [ -e "$file" ] && ! grep -qF "\"uid\": \"$2\"" "$file"; then rm -f "$file.new"; exit 94; fi
if [ "$3" = hold ]; then : >/etc/kubenode/hold; chmod 0644 /etc/kubenode/hold; fi
sync "$file.new"
mv -T "$file.new" "$file"
sync /etc/kubenode
`;

/** Args: "restart" or nothing. Starts the agent unless it runs; one that waits for its next try is better begun again. 90: it does not stay; then it prints why. */
export const START = script`
unit=kubenode-agent.service
systemctl reset-failed $unit 2>/dev/null
if [ "$1" = restart ]; then systemctl restart $unit; else systemctl start $unit; fi
for turn in 1 2 3; do
  sleep 1
  systemctl is-active --quiet $unit || { journalctl --no-pager --lines=40 -o cat -u $unit _COMM=node | tail -n 2; exit 90; }
done
`;

/** The last lines of the agent's log. */
export const JOURNAL = script`journalctl --no-pager --lines=5 -o cat -u kubenode-agent.service | tail -c 2000`;

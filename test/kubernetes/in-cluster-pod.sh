# One container as a container runtime starts it, in namespaces of its own: `unshare … sh in-cluster-pod.sh`, with the rest in the environment.
# Everything that is mounted here goes with the process.
set -e

if [ -n "$POD_CGROUP" ]; then echo 0 >"$POD_CGROUP/cgroup.procs"; fi
mount -t tmpfs -o mode=755 root "$POD_ROOT"
cd "$POD_ROOT"
mkdir -p app dev etc old proc run sys usr var
for name in bin sbin lib lib32 lib64 libx32; do
  if [ -L "/$name" ]; then cp -P "/$name" "$name"
  elif [ -d "/$name" ]; then mkdir "$name"; mount --bind "/$name" "$name"; mount -o remount,bind,ro "$name"; fi
done
mount --bind /usr usr
mount -t tmpfs -o mode=755 local usr/local
mkdir usr/local/bin
touch usr/local/bin/node
mount --bind "$POD_NODE" usr/local/bin/node
mount -o remount,bind,ro usr
# The image has no Git.
if [ -e usr/bin/git ]; then mount --bind /dev/null usr/bin/git; fi
mount --bind "$POD_APP" app
mount -o remount,bind,ro app
mount -t proc proc proc
for name in null zero full random urandom; do touch "dev/$name"; mount --bind "/dev/$name" "dev/$name"; done
ln -s ../run var/run
printf '127.0.0.1 localhost %s\n' "$POD_NAME" >etc/hosts
printf '%s\n' "$POD_MOUNTS" | while IFS='|' read -r path source mode; do
  [ -n "$path" ] || continue
  mkdir -p ".$path"
  mount --bind "$source" ".$path"
  mount -o "remount,bind,$mode" ".$path"
done

ip link set lo up
hostname "$POD_NAME"
# In mounts of its own: it goes on to see the sockets when the root is another.
unshare --mount "$POD_NODE" "$POD_RELAY" "$POD_SOCKETS" </dev/null &
until [ -e "$POD_SOCKETS/ready" ]; do sleep 0.05; done

# What is left ends with its parent (a change of user takes back what unshare set for that), has the environment, user and rights of the container and nothing else.
# As a container runtime does it, and not by chroot, in which the kernel lets no process make namespaces.
cd "$POD_ROOT"
pivot_root . old
cd /
umount -l /old
mount -o "remount,$POD_ROOT_MODE" /
exec /usr/bin/setpriv --reuid "$POD_UID" --regid "$POD_GID" --groups "$POD_GROUPS" \
  --pdeathsig KILL $POD_LIMITS -- /usr/bin/env -i "$@"

# NFSv3: a lock waits for the kernel's question to rpc.statd, which turns an address into a name and asks a name
# server that is silent. Reading goes on meanwhile. Export and mount are this guest's own.
address=10.9.8.7
mkdir -p /export /mnt/nfs /var/lib/nfs/rpc_pipefs
mount -t tmpfs export /export
modprobe lockd nlm_grace_period=2
modprobe nfsd
modprobe nfsv3
mount -t nfsd nfsd /proc/fs/nfsd
mount -t rpc_pipefs sunrpc /var/lib/nfs/rpc_pipefs
ip address add $address/32 dev lo
echo 'hosts: files dns' >/etc/nsswitch.conf
printf 'nameserver 127.0.0.1\noptions timeout:5 attempts:5\n' >/etc/resolv.conf
python3 -c '
import socket, time
mute = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
mute.bind(("127.0.0.1", 53))
time.sleep(1000)' & mute=$!
# A port that nobody has bound yet refuses, which is an answer.
until grep -q ':0035 ' /proc/net/udp; do sleep 0.2; done
rpcbind -w -f & binder=$!
sleep 1
rpc.statd --no-notify --foreground & statd=$!
echo '/export *(rw,fsid=0,no_root_squash,insecure,no_subtree_check)' >/etc/exports
exportfs -a
rpc.nfsd -G 10 -L 10 2
rpc.mountd --foreground & mountd=$!
sleep 1
mount -t nfs -o vers=3,tcp $address:/export /mnt/nfs
touch /mnt/nfs/backup
flock --shared /mnt/nfs/backup true & victim=$!
sleep 2
asks=$(grep -c nsm_mon_unmon /proc/$victim/stack)
reads=$(timeout 2 cat /mnt/nfs/backup && echo works)
effect "$asks in nsm_mon_unmon, reading ${reads:-0}"
look
kill -KILL $mute
wait $victim
umount /mnt/nfs
rpc.nfsd 0
exportfs -ua
finish $mountd $statd $binder $mute
umount /proc/fs/nfsd /var/lib/nfs/rpc_pipefs /export
ip address del $address/32 dev lo
rm /etc/resolv.conf

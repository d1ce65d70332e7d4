# A file that cannot be made, for its file system is frozen: the thread has a path and no descriptor.
mkdir -p /tmp/shop
dd if=/dev/zero of=/tmp/shop.image bs=1M count=32 2>/dev/null
modprobe loop
mke2fs -q -F -t ext4 /tmp/shop.image
mount -o loop /tmp/shop.image /tmp/shop
mkdir -p /tmp/shop/orders
fsfreeze -f /tmp/shop
(echo order >/tmp/shop/orders/new) & victim=$!
sleep 2
effect "$(cat /proc/$victim/status 2>/dev/null | grep -c "State:.D") in state D"
look
fsfreeze -u /tmp/shop
wait 2>/dev/null
umount /tmp/shop
rm /tmp/shop.image

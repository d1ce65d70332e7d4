# A cpuset that allows the CPU of one node and the memory of the other.
echo "+cpuset" >/sys/fs/cgroup/cgroup.subtree_control
mkdir -p /sys/fs/cgroup/model
echo 0 >/sys/fs/cgroup/model/cpuset.cpus
echo 1 >/sys/fs/cgroup/model/cpuset.mems
within model sh -c 'while :; do :; done'
sleep 1
effect "memory of node $(sed -n 's/^Mems_allowed_list:\t//p' /proc/$victim/status)"
look
way_out
# The nodes that are allowed and not its CPU's, before and after.
cured "1 $(sed -n 's/^Mems_allowed_list:\t//p' /proc/$victim/status) (node)"
finish $victim
rmdir /sys/fs/cgroup/model

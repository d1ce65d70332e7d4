# A router beyond this namespace loses segments: netem stands on its far interface.
pair
modprobe sch_netem
ip netns add server
ip -n far link add far1 type veth peer name server0 netns server
ip -n far addr add 10.78.0.1/24 dev far1
ip -n far link set far1 up
ip -n server addr add 10.78.0.2/24 dev server0
ip -n server link set server0 up
ip -n server route add default via 10.78.0.1
ip netns exec far sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
ip route add 10.78.0.0/24 via 10.77.0.2
ip netns exec server $load tcp-sink 0.0.0.0:7001 >/dev/null & sink=$!
sleep 1
tc -n far qdisc add dev far1 root netem loss 6%
$load tcp-source 10.78.0.2:7001 --write-bytes 8192 --bytes-per-second 3e6 >/dev/null & victim=$!
sleep 3
effect "$(tc -n far -s qdisc show dev far1 | sed -n 's/.*dropped \([0-9]*\).*/\1/p' | head -n 1) dropped"
look
finish $sink $victim
ip netns del server
unpair

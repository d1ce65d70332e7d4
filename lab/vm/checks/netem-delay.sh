# netem holds all that leaves for a set time, far below its room, and the printed way out takes only that away.
pair
modprobe sch_netem
ip netns exec far $load udp-echo 0.0.0.0:7000 >/dev/null & echo=$!
sleep 1
tc qdisc add dev near0 root netem delay 200ms loss 1%
$load udp-ping 10.77.0.2:7000 --every-ms 20 >/dev/null & victim=$!
sleep 2
before=$(round_trip 10.77.0.2)
effect "round trip $before ms"
look
way_out
sleep 1
tc qdisc show dev near0
cured "$before $(round_trip 10.77.0.2)"
finish $echo $victim
unpair

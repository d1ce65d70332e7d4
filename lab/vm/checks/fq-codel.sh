# A bulk flow fills a shaped interface, and the printed way out gives each flow its own queue.
pair
tc qdisc add dev near0 root tbf rate 2mbit burst 1600 limit 152100
talk
$load udp-source 10.77.0.2:7000 --per-second 300 >/dev/null & bulk=$!
sleep 4
before=$(round_trip 10.77.0.2)
effect "round trip $before ms"
look
way_out
sleep 3
tc qdisc show dev near0
cured "$before $(round_trip 10.77.0.2)"
finish $echo $victim $bulk
unpair

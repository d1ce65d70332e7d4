# A bulk flow keeps netem's queue full: small packets wait behind it, or find no room and are sent again.
pair
modprobe sch_netem
tc qdisc add dev near0 root netem rate 2mbit limit 100
talk --timeout-ms 20
before=$(round_trip 10.77.0.2)
$load udp-source 10.77.0.2:7000 --per-second 200 >/dev/null & bulk=$!
sleep 8
effect "round trip $(round_trip 10.77.0.2) ms instead of $before ms"
look
finish $echo $victim $bulk
unpair

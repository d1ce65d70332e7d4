# netem holds all that leaves for a set time, far below its room, and the printed way out takes only that away.
pair
modprobe sch_netem
tc qdisc add dev near0 root netem delay 200ms loss 1%
talk
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

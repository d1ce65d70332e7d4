# What holdup says about itself on this kernel.
timeout 60 $holdup doctor >/results/doctor.out 2>/results/doctor.err
echo $? >/results/doctor.status

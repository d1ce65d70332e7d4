# lines.sh SWITCH: writes each line in capitals, by itself or, while the switch is there, by a program for each.
switch=$1
while :; do
    for line in alpha bravo charlie delta echo foxtrot golf hotel; do
        if [ -e "$switch" ]; then
            out=$(/bin/echo "$line" | /usr/bin/tr a-z A-Z)
        else
            out=
            for n in 1 2 3 4 5 6 7 8 9 10 11 12; do
                out="$out${line%"${line#?}"}$n"
            done
        fi
        [ -n "$out" ] && printf . >>"$FIGURE"
    done
done

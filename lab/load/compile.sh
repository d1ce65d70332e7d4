# compile.sh DIR JOBS: compiles a generated program again and again, JOBS at a time.
cd "$1" || exit 1
{
    echo '#include <stdio.h>'
    for n in $(seq 60); do
        echo "int f$n(int x) { int s = 0; for (int i = 0; i < x; i++) s += i * $n ^ (s >> 3); return s; }"
    done
    echo 'int main(void) { return printf("%d", f1(9)) < 0; }'
} >unit.c
job() {
    while :; do
        cc -O2 -o "unit.$1" unit.c && printf . >>"$FIGURE"
    done
}
for n in $(seq 2 "$2"); do
    job "$n" &
done
job 1

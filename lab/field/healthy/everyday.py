"""Everyday commands: of each, the ends must add up to its wall time, and next to nothing may be idle or open without a reason.

Neither healthy nor at fault: what is found is not judged, only that the time is accounted for. The servers that some of them ask
answer after a third of a second.
"""

import shlex
import shutil

from harness.stage import PATH
from harness.truth import MEASURE, case, run
from processes.limits import source
from programs.databases import Postgres, Redis
from programs.names import Sshd, dnsmasq
from programs.web import PY, slow_http

COMPILE = {
    "gcc": "gcc -O1 -c src/a0.c -o a.o", "g++": "g++ -O0 x.cpp -o x", "make": "make -s", "javac": "javac Hello.java",
    "java": "java Hello.java",
    "timeout-gcc": "timeout 9 gcc -c src/a1.c -o b.o", "nice": "nice gcc -c src/a1.c -o b.o",
    "script-gcc": "script -qc 'gcc -c src/a0.c -o d.o' /dev/null",
    "xargs": "bash -c 'ls src/*.c | xargs -n1 gcc -c -o /dev/null'",
    "xargs-P2": "bash -c 'ls src/*.c | xargs -P2 -n1 gcc -c -o /dev/null'",
}
FILES = {
    "tar": "tar cf t.tar data many", "tar-z": "tar czf t.tgz data", "gzip": "gzip -k data/a",
    "gunzip": "bash -c 'gzip -kc data/numbers | gunzip | wc -l'",
    "xz": "xz -k -0 data/a", "xz-T2": "xz -k -1 -T2 -c data/a", "zstd": "zstd -q -k data/a", "bzip2": "bzip2 -k data/numbers",
    "find": "find /usr/share -name '*.gz'", "find-exec": "find src -name '*.c' -exec wc -l {} ;",
    "sort": "sort -R data/numbers -o s",
    "grep-r": "grep -rc stdio /usr/include/linux", "du": "du -s /usr/share", "ls-lR": "ls -lR /usr/share/doc",
    "cp-r": "cp -r /usr/include/linux inc",
    "rm-r": "bash -c 'cp -r many gone; rm -r gone'", "sha256sum": "sha256sum data/a", "rsync": "rsync -a many/ copy/",
    "sync": "sync -f .",
    "dd": "dd if=/dev/zero of=z bs=1M count=60 status=none",
    "dd-sync": "dd if=/dev/zero of=z2 bs=64k count=30 oflag=sync status=none",
}
PROGRAMS = {
    "python3": f"{PY} -c 'import json, urllib.request; print(sum(range(10**6)))'",
    "perl": "perl -e '$s += $_ for 1..2000000; print $s'",
    "node": "node -e 'let s = 0; for (let i = 0; i < 1e7; i++) s += i; console.log(s)'",
    "ruby": "ruby -e 'puts (1..500000).sum { |x| x * 2 }'",
    "lua": "lua5.4 -e 'local s = 0; for i = 1, 1e7 do s = s + i end print(s)'",
    "awk": "awk '{ s += $1 } END { print s }' data/numbers",
    "git-status": "git -C r status -s", "git-log": "git -C r log --stat", "git-clone": "git clone -q --no-local r r2",
    "git-diff": "git -C r diff HEAD~1",
    "apt-cache": "apt-cache show bash", "dpkg-l": "dpkg -l",
    "sqlite3": "sqlite3 t.db 'create table if not exists t(v); insert into t values(1)'",
    "openssl-genrsa": "openssl genrsa -out k.pem 3072", "date": "date", "sleep": "sleep 0.5", "ps": "ps aux",
    "top": "top -b -n 2 -d 0.5", "df": "df",
    "ss": "ss -tan", "sleeps": "bash -c 'sleep 0.3 & sleep 0.5 & wait'", "gdb-batch": "gdb -q -batch -ex run --args true",
    "man-less": "bash -c 'git -C r log | cat | less | wc -l'",
    "bash-pipe": "bash -c 'cat data/numbers | grep 7 | sort -rn | head -3'",
}
CLIENTS = {
    "curl": "curl -s {url}", "wget": "wget -q -O /dev/null {url}", "timeout": "timeout 9 curl -s {url}",
    "nohup": "nohup curl -s {url}",
    "stdbuf": "stdbuf -oL curl -s {url}", "setsid": "setsid -w curl -s {url}", "sh-c": "sh -c 'curl -s {url}'",
    "bash-time": "bash -c 'time curl -s {url}'",
    "usr-time": "/usr/bin/time curl -s {url}", "script": "script -qc 'curl -s {url}' /dev/null", "sudo": "sudo -n curl -s {url}",
    "flock": "flock lk curl -s {url}", "ionice": "ionice -c3 curl -s {url}", "strace": "strace -f -o st curl -s {url}",
    "bash-bg-wait": "bash -c 'curl -s {url} & gcc -c src/a0.c -o c.o & wait'", "redis-cli": "redis-cli -p {redis} set a b",
    "dig": "dig @{dns} a.example.net", "ping": "ping -c 3 -i 0.3 127.0.0.1", "getent": "getent hosts localhost",
}


def measured(s, commands, env=None, **values):
    """Asks for each command whose program is there."""
    for label, command in commands.items():
        argv = shlex.split(command.format(**values)) if values else shlex.split(command)
        if shutil.which(argv[0], path=PATH):
            yield run(argv, MEASURE, label, env=env, root=True)


def files(s):
    """What the commands work on."""
    for at in range(3):
        source(s, f"src/a{at}.c")
    s.blob("data/a", 12)
    s.sh("seq 400000 > data/numbers; mkdir many; for i in $(seq 200); do head -c 4000 /dev/urandom > many/f$i; done")
    s.file("x.cpp",
           "#include <map>\n#include <string>\nint main() { std::map<std::string, int> m; m[\"a\"] = 1; return m.size() - 1; }\n")
    s.file("Makefile", "all:\n\t@for i in 1 2 3; do gcc -c src/a0.c -o x$$i.o; done\n")
    s.file("Hello.java", "class Hello { public static void main(String[] a) { System.out.println(1); } }\n")


@case("everyday-compilers")
def everyday_compilers(s):
    """Compilers and what starts them."""
    files(s)
    yield from measured(s, COMPILE)


@case("everyday-files")
def everyday_files(s):
    """Archives, copies, searches."""
    files(s)
    yield from measured(s, FILES)


@case("everyday-programs")
def everyday_programs(s):
    """Interpreters, git, package managers, what looks at the host."""
    files(s)
    s.sh("git init -q r; cd r; "
         "for j in 1 2 3; do for i in $(seq 60); do seq $i $((2000+j)) > f$i; done; git add .; git commit -qm $j; done")
    yield from measured(s, PROGRAMS)


@case("everyday-clients")
def everyday_clients(s):
    """Clients of servers on this host."""
    files(s)
    _, port = slow_http(s, 0.3)
    redis, address = Redis(s), s.address()
    dnsmasq(s, address, "--address=/example.net/10.1.2.3")
    yield from measured(s, CLIENTS, url=f"http://127.0.0.1:{port}/", redis=redis.port, dns=address)


@case("everyday-logins")
def everyday_logins(s):
    """Commands over ssh, and queries."""
    pg, sshd = Postgres(s), Sshd(s)
    s.dir.chmod(0o755)
    s.file("many/a", "a\n" * 1000)
    remote = " ".join(sshd.ssh()[:-1])
    yield run(sshd.ssh("true"), MEASURE, "ssh", root=True)
    yield run(sshd.ssh("ls", "/"), MEASURE, "ssh-ls", root=True)
    yield run(["rsync", "-a", "-e", remote, "many/", f"root@127.0.0.1:{s.dir}/copy/"], MEASURE, "rsync-ssh", root=True)
    yield run(pg.psql + ["-c", "select count(*) from generate_series(1, 500000)"], MEASURE, "psql")
    yield run(pg.psql + ["-l"], MEASURE, "psql-l")

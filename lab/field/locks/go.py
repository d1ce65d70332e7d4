"""Mutexes of a Go server: its requests are goroutines, and its threads have nothing to run while those stand.

Built with the standard library alone, as its manual shows it, with and without symbols. The truth is who has the mutex, which the
runtime writes down nowhere: the process is what must be named; that a goroutine of it sleeps, or asks another server, may be
said as well.
"""

import time

from harness.stage import tool
from harness.truth import HEALTHY, Truth, case, pid, run
from programs.web import PEER, curl, slow_http

SHOP = """package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"sync"
	"time"
)

type Shop struct {
	mu    sync.Mutex
	stock map[string]int
}

func (s *Shop) Order(item string, takes time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stock[item]++
	time.Sleep(takes)
}

func (s *Shop) Price(url string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, err := http.Get(url)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	return string(body)
}

func (s *Shop) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.stock)
}

func main() {
	shop := &Shop{stock: map[string]int{}}
	http.HandleFunc("/order", func(w http.ResponseWriter, r *http.Request) {
		takes, _ := time.ParseDuration(r.FormValue("takes"))
		shop.Order("book", takes)
		fmt.Fprintln(w, "ordered")
	})
	http.HandleFunc("/price", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, shop.Price(r.FormValue("of"))) })
	http.HandleFunc("/count", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, shop.Count()) })
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}
"""


def shop(s, pprof=False):
    """The server, stripped or not, or with the list of its goroutines: (process, port)."""
    go = tool("go")

    def build(new):
        (new / "main.go").write_text(SHOP)
        (new / "go.mod").write_text("module shop\n\ngo 1.19\n")
        env = f"GOCACHE={s.dir}/go GOPATH={s.dir}/gopath GOFLAGS=-mod=mod GOTOOLCHAIN=local"
        s.sh(f"cd {new} && {env} {go} build -o shop . && {env} {go} build -ldflags='-s -w' -o shop-stripped .", timeout=240)
        (new / "main.go").write_text(SHOP.replace('"net/http"', '"net/http"\n\t_ "net/http/pprof"'))
        s.sh(f"cd {new} && {env} {go} build -o shop-pprof .", timeout=240)
    folder, port = s.once("go-shop", build), s.port()
    program = "shop-pprof" if pprof else s.random.choice(("shop", "shop-stripped"))
    server = s.spawn([folder / program, f"127.0.0.1:{port}"], log="shop.log")
    s.wait_port(port)
    s.sh(" ".join(curl(port, "/count")))
    return server, port


def truth_of(server):
    return Truth(end=("lock", "sleep"), who=(server.pid, "shop"), unseen=True, code=("lock.goroutine",) + PEER,
                 culprit=(server.pid,))


@case("go-server-mutex")
def go_server_mutex(s):
    """A request sleeps with the mutex that another one wants; the client of the other waits."""
    server, port = shop(s)
    yield run(curl(port, "/count"), HEALTHY, "twin")
    yield pid(server, HEALTHY, "idle-twin", secs=2)
    truth = truth_of(server)
    busy = s.waiting(curl(port, f"/order?takes={s.seconds(2.8, 3.5)}s"), 0.3)
    yield run(curl(port, "/count"), truth, wall=1)
    busy.wait(9)
    s.waiting(curl(port, "/order?takes=5s"), 0.3)
    yield pid(s.waiting(curl(port, "/count"), 0.2), truth, "client-hang", secs=2, standing=True)
    time.sleep(3)
    s.waiting(curl(port, "/order?takes=7s"), 0.3)
    s.waiting(curl(port, "/count"), 0.2)
    yield pid(server, truth, "server-hang", secs=3, standing=True)


@case("go-server-upstream")
def go_server_upstream(s):
    """The one that has the mutex asks a late server of this host: who waits for the mutex waits for that."""
    server, port = shop(s)
    seconds = s.seconds(3.4, 4.2)
    _, late = slow_http(s, seconds)
    of = f"/price?of=http://127.0.0.1:{late}/"
    truth = truth_of(server).plus(who=(server.pid, "shop", "python3"))
    busy = s.waiting(curl(port, of), 0.3)
    yield run(curl(port, "/count"), truth, wall=1)
    busy.wait(9)
    s.waiting(curl(port, of), 0.3)
    yield pid(s.waiting(curl(port, "/count"), 0.2), truth, "client-hang", secs=2, standing=True)

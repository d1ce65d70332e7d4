// A server whose requests want a mutex briefly, its own clients, and a keeper that holds it for long, over and over.
//
// goroutines CLIENTS GAP_MS KEEPER SWITCH
//
// The switch holds the milliseconds that the keeper holds it each time; without it, a tenth of one. The keeper has a thread of its
// own, with its name.
package main

import (
	"bufio"
	"fmt"
	"log"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

type table struct {
	mu   sync.Mutex
	rows int
}

func (t *table) add() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows++
	return t.rows
}

func (t *table) sweep(hold time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	time.Sleep(hold)
}

func milliseconds(text string) (time.Duration, error) {
	value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return time.Duration(value * float64(time.Millisecond)), err
}

func keep(t *table, name, at string, gap time.Duration) {
	runtime.LockOSThread()
	const setName = 15
	text, _ := syscall.BytePtrFromString(name)
	syscall.RawSyscall(syscall.SYS_PRCTL, setName, uintptr(unsafe.Pointer(text)), 0)
	for {
		hold := 100 * time.Microsecond
		if set, err := os.ReadFile(at); err == nil {
			if drawn, err := milliseconds(string(set)); err == nil {
				hold = drawn
			}
		}
		t.sweep(hold)
		time.Sleep(gap)
	}
}

func answer(t *table, client net.Conn) {
	lines := bufio.NewReader(client)
	for {
		if _, err := lines.ReadString('\n'); err != nil {
			return
		}
		fmt.Fprintln(client, t.add())
	}
}

func ask(address net.Addr, done *os.File) {
	server, err := net.Dial("tcp", address.String())
	if err != nil {
		log.Fatal(err)
	}
	lines := bufio.NewReader(server)
	for {
		fmt.Fprintln(server, "add")
		if _, err := lines.ReadString('\n'); err != nil {
			log.Fatal(err)
		}
		done.Write([]byte("."))
		time.Sleep(2 * time.Millisecond)
	}
}

func main() {
	clients, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	gap, err := milliseconds(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	figure := os.Getenv("FIGURE")
	if figure == "" {
		figure = os.DevNull
	}
	done, err := os.OpenFile(figure, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	t := &table{}
	go keep(t, os.Args[3], os.Args[4], gap)
	for number := 0; number < clients; number++ {
		go ask(listener.Addr(), done)
	}
	for {
		client, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go answer(t, client)
	}
}

// What Go programs need of a kernel. Prints a line for each ability that works; dies at the first that does not. Go has no
// locales.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

func check(condition bool, what string, err error) {
	if !condition || err != nil {
		fmt.Fprintln(os.Stderr, "abilities.go:", what, err)
		os.Exit(1)
	}
}

func ok(ability string) { fmt.Println("ok " + ability) }

func threads() {
	var counter int32
	var group sync.WaitGroup
	for i := 0; i < 8; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			runtime.LockOSThread() // a thread of its own, not a place in the scheduler
			for j := 0; j < 1000; j++ {
				atomic.AddInt32(&counter, 1)
			}
		}()
	}
	group.Wait()
	check(counter == 8000, "the threads' sum", nil)
	ok("threads")
}

func subprocess() {
	out, err := exec.Command("sh", "-c", "echo from a child").Output()
	check(string(out) == "from a child\n", "output", err)
	err = exec.Command("sh", "-c", "exit 3").Run()
	failed, isExit := err.(*exec.ExitError)
	check(isExit && failed.ExitCode() == 3, "the exit code", nil)
	ok("subprocess")
}

func sockets() {
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": "/tmp/abilities.socket"} {
		server, err := net.Listen(network, address)
		check(true, "listen", err)
		go func() {
			connection, err := server.Accept()
			check(true, "accept", err)
			io.Copy(connection, connection)
			connection.Close()
		}()
		client, err := net.Dial(network, server.Addr().String())
		check(true, "dial", err)
		_, err = client.Write([]byte("hello"))
		check(true, "write", err)
		buffer := make([]byte, 5)
		_, err = io.ReadFull(client, buffer)
		check(string(buffer) == "hello", "the answer", err)
		client.Close()
		server.Close()
	}
	ok("sockets")
}

func files(directory string) {
	inner, err := os.MkdirTemp(directory, "abilities-")
	check(true, "a directory", err)
	path := filepath.Join(inner, "file")
	check(true, "write", os.WriteFile(path, []byte("content"), 0o600))
	check(true, "rename", os.Rename(path, path+"2"))
	content, err := os.ReadFile(path + "2")
	check(string(content) == "content", "read", err)
	check(true, "remove", os.RemoveAll(inner))
}

func memoryMaps() {
	file, err := os.CreateTemp("", "mapped")
	check(true, "a file", err)
	check(true, "truncate", file.Truncate(8192))
	bytes, err := syscall.Mmap(int(file.Fd()), 0, 8192, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	check(true, "mmap", err)
	copy(bytes[4096:], "mapped")
	check(true, "munmap", syscall.Munmap(bytes))
	buffer := make([]byte, 6)
	_, err = file.ReadAt(buffer, 4096)
	check(string(buffer) == "mapped", "the map's content", err)
	ok("mmap")
}

func signals() {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGUSR1)
	check(true, "kill", syscall.Kill(os.Getpid(), syscall.SIGUSR1))
	check(<-caught == syscall.SIGUSR1, "a signal", nil)
	child := exec.Command("sleep", "1000")
	check(true, "start", child.Start())
	check(true, "kill", child.Process.Signal(syscall.SIGTERM))
	child.Wait()
	check(child.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGTERM, "the child's end", nil)
	ok("signals")
}

func timers() {
	before := time.Now()
	ticker := time.NewTicker(2 * time.Millisecond)
	for i := 0; i < 3; i++ {
		<-ticker.C
	}
	<-time.After(2 * time.Millisecond)
	check(time.Since(before) >= 5*time.Millisecond, "the clock", nil)
	ok("timers")
}

func main() {
	threads()
	subprocess()
	sockets()
	files(".")
	ok("files")
	files("/tmp")
	ok("tmp")
	memoryMaps()
	signals()
	timers()
	check(runtime.GOMAXPROCS(0) == runtime.NumCPU(), "GOMAXPROCS", nil)
	fmt.Println("cpus", runtime.NumCPU())
	fmt.Println("done")
}

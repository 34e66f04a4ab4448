// Package testport gives tests ports for servers that they start, stop and start again.
//
// A port that the kernel chooses (127.0.0.1:0) may become the port of an outgoing connection as soon as its listener
// is closed, in this or another process. The ports of this package are below the range for outgoing connections, and no other
// process that uses the package gets them.
package testport

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
)

// A process owns blocks of ports. It listens on the first port of each block until it ends, so that no other process
// uses the block.
const (
	first     = 10_000
	blockSize = 100
	blocks    = 100
)

var (
	mu      sync.Mutex
	owned   []net.Listener
	block   = os.Getpid() % blocks // the next one to try
	next    int                    // the next port of the last owned block
	errNone = errors.New("testport: all ports from 10000 to 19999 are in use")
)

// New returns a port of 127.0.0.1 on which nothing listens. The process gets each port once.
func New() (int, error) {
	mu.Lock()
	defer mu.Unlock()
	for range blocks * blockSize {
		if next%blockSize == 0 {
			if err := ownBlock(); err != nil {
				return 0, err
			}
		}
		port := next
		next++
		if l, err := listen(port); err == nil {
			_ = l.Close()
			return port, nil
		}
	}
	return 0, errNone
}

// Addr is New with the host 127.0.0.1.
func Addr(t testing.TB) string {
	t.Helper()
	port, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return address(port)
}

// ownBlock sets next to the second port of a block that no other process owns.
func ownBlock() error {
	for range blocks {
		port := first + block%blocks*blockSize
		block++
		if l, err := listen(port); err == nil {
			owned, next = append(owned, l), port+1
			return nil
		}
	}
	return errNone
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", address(port)) //nolint:noctx // does not wait
}

package sqlite_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/holdfast-dev/holdfast/backend/sqlite"
)

// Open a store in a new directory. Only one process at a time can open it for writing.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "holdfast")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	s, err := sqlite.Open(context.Background(), sqlite.Config{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	info := s.Info()
	fmt.Println(info.Name, info.Durable, info.Exclusive)
	fmt.Println(s.Close())
	// Output:
	// sqlite true true
	// <nil>
}

package server

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestABudgetIsSharedInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &budget{free: 10}
		if !b.take(t.Context(), 8) {
			t.Fatal("take(8) of 10 was refused")
		}
		var mu sync.Mutex
		var order []int64
		for _, n := range []int64{5, 1, 3} {
			go func() {
				if b.take(t.Context(), n) {
					mu.Lock()
					order = append(order, n)
					mu.Unlock()
				}
			}()
			synctest.Wait()
		}
		if len(order) != 0 {
			t.Errorf("%v went past the one who waits", order)
		}
		b.give(8)
		synctest.Wait()
		if len(order) != 3 || b.free != 1 {
			t.Errorf("granted %v, %d left, want all three and 1", order, b.free)
		}
	})
}

func TestWhoGivesUpLetsOthersPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &budget{free: 4}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		passed := make(chan bool, 1)
		go func() {
			time.Sleep(time.Millisecond)
			passed <- b.take(t.Context(), 2)
		}()
		if b.take(short, 5) {
			t.Error("take(5) of 4 was granted")
		}
		if !<-passed || b.free != 2 || len(b.waiting) != 0 {
			t.Errorf("%d left, %d waiting, want 2 and none", b.free, len(b.waiting))
		}
	})
}

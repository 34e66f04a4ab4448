//go:build !linux

package main

import (
	"syscall"
	"time"
)

func sysProcAttr() *syscall.SysProcAttr { return nil }

func (s *server) cpu() time.Duration { return 0 }

func familyCPU(int) time.Duration { return 0 }

func ownCPU() time.Duration { return 0 }

func (s *server) memory() (now, peak int64) { return 0, 0 }

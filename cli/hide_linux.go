package cli

import (
	"os"
	"strings"
	"unsafe"
)

// secretFlags are the flags with secret values. Webhook URLs may contain keys.
var secretFlags = []string{
	"--token", "--database-url", "--webhook", "--webhook-url", "--webhook-token", "--webhook-secret", "--webhook-encryption-key", "--webhook-egress-proxy",
	"--embedding-key",
}

// hideSecrets returns the arguments of the process and overwrites secrets in the process list, which
// other users of the machine can read. Call it once, before anything else.
func hideSecrets() []string {
	args := make([]string, len(os.Args))
	for i, arg := range os.Args {
		args[i] = strings.Clone(arg)
	}
	for i, arg := range args {
		flags := secretFlags
		if name, _, _ := strings.Cut(arg, "="); strings.HasPrefix(name, "--store-") { // the store of a contract
			flags = []string{name}
		}
		for _, flag := range flags {
			switch {
			case strings.HasPrefix(arg, flag+"="):
				overwrite(os.Args[i][len(flag)+1:])
			case arg == flag && i+1 < len(args):
				overwrite(os.Args[i+1])
			}
		}
	}
	os.Args = args
	return args
}

// overwrite masks a part of os.Args in place. On Linux this is the memory that the kernel shows as
// the command line.
func overwrite(part string) {
	if part == "" {
		return
	}
	for i := range len(part) {
		*(*byte)(unsafe.Add(unsafe.Pointer(unsafe.StringData(part)), i)) = '*'
	}
}

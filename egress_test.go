package holdfast_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"testing"
)

// egressNames are the names of the standard library that make requests or connections, by
// package. "*" stands for all names.
var egressNames = map[string][]string{
	"net": {
		"Dial", "DialIP", "DialTCP", "DialTimeout", "DialUDP", "DialUnix", "Dialer", "LookupAddr", "LookupCNAME", "LookupHost", "LookupIP",
		"LookupMX", "LookupNS", "LookupPort", "LookupSRV", "LookupTXT", "ResolveIPAddr", "ResolveTCPAddr", "ResolveUDPAddr",
	},
	"net/http":          {"Client", "DefaultClient", "DefaultTransport", "Get", "Head", "Post", "PostForm", "Transport"},
	"net/http/httputil": {"NewSingleHostReverseProxy", "ReverseProxy"},
	"crypto/tls":        {"Dial", "DialWithDialer", "Dialer"},
	"net/rpc":           {"*"},
	"net/smtp":          {"*"},
	"syscall":           {"Connect"},
}

// egressAllowed are the packages that may use egressNames, and why. None of them requests a
// URL that a client supplies.
var egressAllowed = map[string]string{
	"internal/safehttp": "makes all requests to URLs that clients supply",
	"auth/issuer":       "calls the issuers that the operator configures, and the key sets that these name",
	"client":            "calls the agent that its user configures",
	"holdfasttest":      "calls a handler in the same process",
	"internal/pgtest":   "forwards connections of tests to their database",
}

func TestOnlySafehttpRequestsURLsOfClients(t *testing.T) {
	t.Parallel()
	needed := make(map[string]bool)
	eachFile(t, parser.SkipObjectResolution, func(pkg, file string, parsed *ast.File, fset *token.FileSet) {
		names := make(map[string]string) // the imports that are in egressNames, by local name
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := egressNames[imported]; !ok {
				continue
			}
			name := path.Base(imported)
			if spec.Name != nil {
				name = spec.Name.Name
			}
			if name == "." {
				t.Errorf("%s: dot import of %s hides the names that are used", file, imported)
			}
			names[name] = imported
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := s.X.(*ast.Ident)
			if !ok {
				return true
			}
			list := egressNames[names[x.Name]]
			if !slices.Contains(list, s.Sel.Name) && !slices.Contains(list, "*") {
				return true
			}
			needed[pkg] = true
			if egressAllowed[pkg] == "" {
				t.Errorf("%s: %s.%s: make requests through internal/safehttp; if clients cannot choose the destination, add the package to egressAllowed",
					fset.Position(s.Pos()), x.Name, s.Sel.Name)
			}
			return true
		})
	})
	for pkg := range egressAllowed {
		if !needed[pkg] {
			t.Errorf("package %s uses no egressNames: remove it from egressAllowed", pkg)
		}
	}
}

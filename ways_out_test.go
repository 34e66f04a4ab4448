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

// waysOut are the names of the standard library that make requests or connections, by
// the package they are in; "*" is all of it.
var waysOut = map[string][]string{
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

// mayCall are the packages that may use waysOut, and why. None of them calls a URL that a
// stranger has supplied.
var mayCall = map[string]string{
	"internal/safehttp": "the only way out to URLs of strangers",
	"client":            "calls the agent that its user names",
	"holdfasttest":      "calls a handler in the same process",
	"internal/loadgen":  "calls the server that is measured",
}

func TestURLsOfStrangersAreCalledBySafehttpAlone(t *testing.T) {
	t.Parallel()
	needed := make(map[string]bool)
	eachFile(t, parser.SkipObjectResolution, func(pkg, file string, parsed *ast.File, places *token.FileSet) {
		names := make(map[string]string) // the imported packages of waysOut by what the file calls them
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := waysOut[imported]; !ok {
				continue
			}
			name := path.Base(imported)
			if spec.Name != nil {
				name = spec.Name.Name
			}
			if name == "." {
				t.Errorf("%s: imports %s with a dot, which hides what is called", file, imported)
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
			out := waysOut[names[x.Name]]
			if !slices.Contains(out, s.Sel.Name) && !slices.Contains(out, "*") {
				return true
			}
			needed[pkg] = true
			if mayCall[pkg] == "" {
				t.Errorf("%s: %s.%s: requests go out through internal/safehttp; if no stranger can choose where this one goes, say so in mayCall",
					places.Position(s.Pos()), x.Name, s.Sel.Name)
			}
			return true
		})
	})
	for pkg := range mayCall {
		if !needed[pkg] {
			t.Errorf("package %s calls nobody: take it out of mayCall", pkg)
		}
	}
}

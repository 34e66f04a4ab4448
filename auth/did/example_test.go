package did_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-dev/holdfast/auth/did"
)

// An agent signs a request, and another agent verifies it with the key that the caller's DID contains.
func Example() {
	body := []byte(`{"jsonrpc":"2.0","id":1,"method":"tasks/list","params":{}}`)
	header, now := http.Header{}, time.Unix(1_700_000_000, 0)
	caller, err := did.FromKey(zeroPublic)
	if err != nil {
		panic(err)
	}
	if err := did.Sign(header, caller, zeroPrivate, body, now); err != nil {
		panic(err)
	}

	resolver, err := did.NewResolver(did.ResolverConfig{})
	if err != nil {
		panic(err)
	}
	signature, err := did.ParseRequestSignature(header, "", now.Add(time.Second))
	if err != nil {
		panic(err)
	}
	document, err := resolver.Resolve(context.Background(), signature.DID, nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(signature.DID, signature.Verify(document, body))
	// Output: did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp <nil>
}

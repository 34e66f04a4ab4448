package issuer_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/auth/issuer"
)

func Example() {
	company, err := issuer.New(issuer.Config{
		Name:      "company",
		URL:       "https://login.example/realms/company",
		Audiences: []string{"https://agent.example"},
		Provider:  a2a.ProviderKeycloak,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	set, err := issuer.NewSet(company)
	if err != nil {
		fmt.Println(err)
		return
	}
	// A server calls set.Start, which fetches the keys in the background, and set.Close at its end.
	_, err = set.Verify(context.Background(), "not-a-token")
	var refusal *a2a.Error
	if errors.As(err, &refusal) {
		fmt.Println(refusal.Code, refusal.Data["reason"])
	}
	// Output: unauthenticated invalid_token
}

package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/server"
)

// tokens returns the tokens of the flags and of the file. Errors contain the position of an invalid
// token, not the token.
func (c *serveCmd) tokens() ([]server.Token, error) {
	var tokens []server.Token
	var errs []error
	seen := map[string]bool{}
	issuers, _ := c.issuers(nil) // access reports the error
	add := func(place, entry string) {
		entry = strings.TrimSpace(entry)
		equals := strings.LastIndexByte(entry, '=') // tokens may end with =
		token, principal := entry[:max(equals, 0)], entry[equals+1:]
		switch {
		case token == "" || principal == "":
			errs = append(errs, fmt.Errorf("%s is not of the form TOKEN=PRINCIPAL", place))
		case seen[token]:
			errs = append(errs, fmt.Errorf("%s repeats a token", place))
		case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
			errs = append(errs, fmt.Errorf("%s has a token with a space or a character that is not ASCII", place))
		default:
			seen[token] = true
			p := a2a.Principal{ID: principal}
			if err := p.Check(); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", place, err))
				return
			}
			for _, i := range issuers {
				if strings.HasPrefix(principal, i.Name+":") {
					errs = append(errs, fmt.Errorf("%s: the principal %s starts like a principal of the issuer %s", place, a2a.Quote(principal), i.Name))
					return
				}
			}
			tokens = append(tokens, server.Token{Token: token, Principal: p})
		}
	}
	for i, entry := range c.Tokens {
		add(fmt.Sprintf("--token: entry %d", i+1), entry)
	}
	if c.TokensFile == "" {
		return tokens, errors.Join(errs...)
	}
	text, err := os.ReadFile(c.TokensFile)
	if err != nil {
		return nil, fmt.Errorf("--tokens-file: %w", err)
	}
	for i, entry := range strings.Split(string(text), "\n") {
		if entry = stripComment(entry); entry != "" {
			add(fmt.Sprintf("--tokens-file: line %d of %s", i+1, c.TokensFile), entry)
		}
	}
	if len(tokens) == 0 && len(errs) == 0 {
		// An empty file must not disable authentication.
		errs = append(errs, fmt.Errorf("--tokens-file: %s contains no token", c.TokensFile))
	}
	return tokens, errors.Join(errs...)
}

// stripComment removes a comment that starts with # at the start of the line or after a space. A #
// within a word may be part of a token.
func stripComment(line string) string {
	for i, r := range line {
		if r == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			line = line[:i]
			break
		}
	}
	return strings.TrimSpace(line)
}

package push

import (
	"encoding/base64"
	"errors"
	"strings"
)

// GlobalID is the id of the lane that tells the global webhook of a task. No webhook
// of an owner has it, and owners do not see it.
const GlobalID = "global"

// globalData is what is kept of the global webhook with a task: where it goes and with
// what is decided when it is told.
var globalData = []byte(`{"global":true}`)

// decodeSecret reads a secret as receivers are told it.
func decodeSecret(told string) ([]byte, error) {
	text, ok := strings.CutPrefix(told, "whsec_")
	secret, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(secret) < 24 || len(secret) > 64 {
		return nil, errors.New("must be whsec_ and the base64 of 24 to 64 bytes")
	}
	return secret, nil
}

// globalSettings returns the settings of the global webhook as they are now.
func (s *Service) globalSettings() (settings, error) {
	if s.cfg.Global.URL == "" {
		return settings{}, &permanent{"there is no global webhook any more"}
	}
	return settings{Global: true, URL: s.cfg.Global.URL, Secrets: &secrets{Token: s.cfg.Global.Token}}, nil
}

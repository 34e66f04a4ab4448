package redis

import (
	"net/url"
	"strings"
)

// sessionKey returns the key of the hash of a session. The names are the hash tag, so that all keys
// that start with it are in one slot. Escaping keeps the names apart and without braces.
func (s *Store) sessionKey(kind, owner, agent, session string) string {
	return s.cfg.Prefix + kind + ":{" + url.PathEscape(owner) + "/" + url.PathEscape(agent) + "/" + url.PathEscape(session) + "}"
}

// Kinds of keys.
const (
	kindHistory    = "h"
	kindState      = "s"
	kindIndex      = "i" // of transcripts
	kindStateIndex = "j"
)

// indexKey returns the key of the index of an owner.
func (s *Store) indexKey(kind, owner string) string {
	return s.cfg.Prefix + kind + ":{" + url.PathEscape(owner) + "}"
}

// member returns the entry of a session in the index. Names contain no NUL, so entries sort by
// agent and then by session.
func member(agent, session string) string { return agent + "\x00" + session }

func parseMember(m string) (agent, session string) {
	agent, session, _ = strings.Cut(m, "\x00")
	return agent, session
}

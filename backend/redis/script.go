package redis

import (
	"crypto/sha1" // the server names scripts by it
	_ "embed"
	"encoding/hex"
)

// script is a Lua script that the server caches by its digest.
type script struct{ text, sha string }

func newScript(parts ...string) *script {
	s := &script{}
	for _, part := range parts {
		s.text += part
	}
	sum := sha1.Sum([]byte(s.text))
	s.sha = hex.EncodeToString(sum[:])
	return s
}

// The scripts. common.lua has the functions that several of them use.
var (
	//go:embed scripts/common.lua
	luaCommon string
	//go:embed scripts/session.lua
	luaSession string
	//go:embed scripts/append.lua
	luaAppend string
	//go:embed scripts/remove.lua
	luaRemove string
	//go:embed scripts/clear.lua
	luaClear string
	//go:embed scripts/stage.lua
	luaStage string
	//go:embed scripts/fork.lua
	luaFork string
	//go:embed scripts/restore.lua
	luaRestore string
	//go:embed scripts/index.lua
	luaIndex string
	//go:embed scripts/state.lua
	luaState string

	scriptAppend  = newScript(luaCommon, luaSession, luaAppend)
	scriptRemove  = newScript(luaCommon, luaSession, luaRemove)
	scriptClear   = newScript(luaCommon, luaSession, luaClear)
	scriptStage   = newScript(luaStage)
	scriptFork    = newScript(luaCommon, luaSession, luaFork)
	scriptRestore = newScript(luaCommon, luaSession, luaRestore)
	scriptIndex   = newScript(luaIndex)
	scriptState   = newScript(luaCommon, luaState)
)

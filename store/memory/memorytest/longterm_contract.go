package memorytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/suite"
)

func diffOf(want, got any) string { return cmp.Diff(want, got) }

var longTermContract = []longTermTest{
	{"a fact is returned as it was saved", testSavedFact},
	{"the default namespace has a name", func(f *longTermFixture) {
		f.in.Namespace = ""
		id := f.save("Ravi prefers Go.", memory.SaveParams{})
		f.in.Namespace = memory.DefaultNamespace
		if m := f.get(id); m.Scope != f.in {
			f.Errorf("scope = %+v, want %+v", m.Scope, f.in)
		}
	}},
	{"save with a key replaces the fact", testSaveWithKey},
	{"a repeated save adds no version", testRepeatedSave},
	{"metadata does not share memory with the caller", testMetadataAliases},
	{"numbers in metadata are exact", testMetadataNumbers},
	{"a canceled call has no effect", testCanceledCall},
}

func testSavedFact(f *longTermFixture) {
	from, to := longTermStart.Add(-time.Hour), longTermStart.Add(time.Hour)
	p := memory.SaveParams{
		TTL: time.Minute, Key: "editor", ValidFrom: from, ValidTo: to,
		Metadata: map[string]any{"source": "chat", "tags": []any{"a", nil, true}, "score": 0.5, "nested": map[string]any{"deep": "x"}},
	}
	id := f.save("Ravi uses vim.\nDaily. ü 東京", p)
	want := memory.Memory{
		ID: id, Scope: f.in, Key: "editor", Content: "Ravi uses vim.\nDaily. ü 東京", Metadata: p.Metadata, Version: 1,
		CreatedAt: longTermStart, UpdatedAt: longTermStart, ValidFrom: from, ValidTo: to, ExpiresAt: longTermStart.Add(time.Minute),
	}
	f.equal("Get()", f.get(id), want)
	want.Score = 1
	f.equal("Search()", f.search(memory.SearchParams{}), []memory.Memory{want})
	if other := f.save("Ravi uses vim.\nDaily. ü 東京", memory.SaveParams{}); other == id {
		f.Errorf("Save() without a key returned the id of another fact")
	}
}

func testSaveWithKey(f *longTermFixture) {
	first := f.save("The office is in Paris.", memory.SaveParams{Key: "office", Metadata: map[string]any{"v": 1.0}})
	f.save("The warehouse is in Lyon.", memory.SaveParams{Key: "warehouse"})
	second := f.save("The office is in Rome.", memory.SaveParams{Key: "office"})
	suite.Equal(f, second, first, "Save() with the same key")
	m := f.get(first)
	if m.Version != 2 || m.Content != "The office is in Rome." || m.Metadata != nil || !m.CreatedAt.Equal(longTermStart) || !m.UpdatedAt.Equal(longTermStart.Add(2*time.Second)) {
		f.Errorf("Get() = %+v, want version 2 without metadata", m)
	}
	f.mustFind(memory.SearchParams{Query: "office"}, "The office is in Rome.")
	f.mustFind(memory.SearchParams{Query: "paris"})
	suite.Call(f.s.Delete(f.ctx(), f.in, first)).Want(f, true, "Delete()")
	if third := f.save("The office is in Oslo.", memory.SaveParams{Key: "office"}); third == first {
		f.Errorf("Save() after Delete returned the id of the deleted fact")
	}
}

func testRepeatedSave(f *longTermFixture) {
	p := memory.SaveParams{Key: "k", Metadata: map[string]any{"a": 1.0, "b": "x"}, TTL: time.Hour}
	id := f.save("Ravi likes tea.", p)
	f.save("Ravi likes tea.", p)
	if m := f.get(id); m.Version != 1 || !m.ExpiresAt.Equal(longTermStart.Add(time.Hour+time.Second)) {
		f.Errorf("after a repeated Save: version %d, expires %s, want version 1 and a later expiry", m.Version, m.ExpiresAt)
	}
	p.Metadata = map[string]any{"a": 2.0}
	f.save("Ravi likes tea.", p)
	if m := f.get(id); m.Version != 2 {
		f.Errorf("after Save with other metadata: version %d, want 2", m.Version)
	}
}

func testMetadataAliases(f *longTermFixture) {
	metadata := map[string]any{"tags": []any{"a"}, "nested": map[string]any{"x": "y"}}
	id := f.save("Ravi has a cat.", memory.SaveParams{Metadata: metadata})
	for range 2 {
		metadata["nested"].(map[string]any)["x"] = "changed"
		metadata["tags"].([]any)[0] = "changed"
		metadata = f.get(id).Metadata
		f.equal("metadata", metadata, map[string]any{"tags": []any{"a"}, "nested": map[string]any{"x": "y"}})
	}
	metadata["nested"].(map[string]any)["x"] = "changed"
	for range 2 {
		found := suite.Len(f, f.search(memory.SearchParams{Query: "cat"}), 1, "Search()")
		f.equal("Search()", contents(found), []string{"Ravi has a cat."})
		f.equal("metadata of a search", found[0].Metadata, map[string]any{"tags": []any{"a"}, "nested": map[string]any{"x": "y"}})
		found[0].Metadata["tags"].([]any)[0] = "changed"
	}
}

func testMetadataNumbers(f *longTermFixture) {
	id := f.save("Numbers.", memory.SaveParams{Metadata: map[string]any{"big": json.Number("9007199254740993"), "int": 7, "float": 0.1, "huge": json.Number("1e400")}})
	want := map[string]any{"big": json.Number("9007199254740993"), "int": 7.0, "float": 0.1, "huge": json.Number("1e400")}
	f.equal("metadata", f.get(id).Metadata, want)
}

func testCanceledCall(f *longTermFixture) {
	id := f.save("Ravi has a dog.", memory.SaveParams{})
	ctx, cancel := context.WithCancel(f.ctx())
	cancel()
	suite.Canceled(f, map[string]error{
		"Save": suite.Err(f.s.Save(ctx, f.in, "lost", memory.SaveParams{})), "Search": suite.Err(f.s.Search(ctx, f.in, memory.SearchParams{Query: "dog"})),
		"Get": suite.Err(f.s.Get(ctx, f.in, id)), "Delete": suite.Err(f.s.Delete(ctx, f.in, id)), "Clear": suite.Err(f.s.Clear(ctx, f.in)),
	})
	f.mustFind(memory.SearchParams{}, "Ravi has a dog.")
}

var longTermInput = []longTermTest{
	{"invalid parameters are rejected by name", testInvalidParams},
	{"special characters are text", testSpecialCharacters},
	{"values of the maximum size are stored", testMaximumSizes},
	{"unknown ids do not exist", func(f *longTermFixture) {
		for _, id := range []string{"x", "%", "'", strings.Repeat("x", memory.MaxFactKey)} {
			_, err := f.s.Get(f.ctx(), f.in, id)
			deleted, deleteErr := f.s.Delete(f.ctx(), f.in, id)
			if !errors.Is(err, memory.ErrFactNotFound) || !errors.Is(err, store.ErrNotFound) || deleted || deleteErr != nil {
				f.Errorf("Get(%q) = %v, Delete() = %t, %v, want not found", id, err, deleted, deleteErr)
			}
		}
	}},
}

func nested(depth int) map[string]any {
	m := map[string]any{"x": 1}
	for range depth - 1 {
		m = map[string]any{"x": m}
	}
	return m
}

func testInvalidParams(f *longTermFixture) {
	cyclic := map[string]any{}
	cyclic["x"] = cyclic
	long := func(n int) string { return strings.Repeat("x", n) }
	saves := map[string]memory.SaveParams{
		"ttl":       {TTL: -1},
		"key":       {Key: long(memory.MaxFactKey + 1)},
		"key ":      {Key: "a\x00b"},
		"validTo":   {ValidFrom: longTermStart, ValidTo: longTermStart},
		"validFrom": {ValidFrom: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"metadata":  {Metadata: map[string]any{"x": long(memory.MaxMetadata)}}, "metadata ": {Metadata: cyclic},
		"metadata  ": {Metadata: nested(memory.MaxMetadataDepth + 1)}, "metadata   ": {Metadata: map[string]any{"x": "\xff"}},
		"metadata    ": {Metadata: map[string]any{"x": func() {}}},
	}
	for name, p := range saves {
		f.mustReject("Save", name, suite.Err(f.s.Save(f.ctx(), f.in, "content", p)))
	}
	for name, content := range map[string]string{"content": " \n", "content ": long(memory.MaxContent + 1), "content  ": "a\xff", "content   ": "a\x00"} {
		f.mustReject("Save", name, suite.Err(f.s.Save(f.ctx(), f.in, content, memory.SaveParams{})))
	}
	scopes := map[string]memory.Scope{
		"owner": {Agent: "a"}, "agent": {Owner: "o"}, "agent ": {Owner: "o", Agent: "\xff"}, "owner ": {Owner: long(memory.MaxScopePart + 1), Agent: "a"},
		"namespace": {Owner: "o", Agent: "a", Namespace: "/"}, "namespace ": {Owner: "o", Agent: "a", Namespace: "a//b"},
		"namespace  ": {Owner: "o", Agent: "a", Namespace: strings.Repeat("a/", memory.MaxNamespaceDepth) + "a"},
	}
	for name, scope := range scopes {
		for call, err := range map[string]error{
			"Save": suite.Err(f.s.Save(f.ctx(), scope, "content", memory.SaveParams{})), "Search": suite.Err(f.s.Search(f.ctx(), scope, memory.SearchParams{})),
			"Get": suite.Err(f.s.Get(f.ctx(), scope, "x")), "Clear": suite.Err(f.s.Clear(f.ctx(), scope)),
		} {
			f.mustReject(call, name, err)
		}
	}
	for name, p := range map[string]memory.SearchParams{
		"query": {Query: long(memory.MaxQuery + 1)}, "query ": {Query: "a\x00"}, "mode": {Mode: "magic"}, "minScore": {MinScore: 1.1}, "recencyHalfLife": {RecencyHalfLife: -1},
	} {
		f.mustReject("Search", name, suite.Err(f.s.Search(f.ctx(), f.in, p)))
	}
	f.mustFind(memory.SearchParams{})
}

// mustReject fails the test unless err names the parameter.
func (f *longTermFixture) mustReject(call, field string, err error) {
	f.Helper()
	if a2a.CodeOf(err) != a2a.CodeInvalid || err == nil || !strings.HasPrefix(err.Error(), "memory: "+strings.TrimSpace(field)+": ") {
		f.Errorf("%s() with an invalid %s = %v, want an error that names it", call, field, err)
	}
}

func testSpecialCharacters(f *longTermFixture) {
	texts := []string{`%_'";--`, `a" OR "b`, `NEAR(a b)`, `-- ' & | ! ( ) :* <->`, "\U0001F600 emoji", `\\ back`, "{s}.table $1::text", "* ^ ~"}
	for _, text := range texts {
		f.in = memory.Scope{Owner: "o'" + text, Namespace: "n%_" + strings.ReplaceAll(text, "/", ""), Agent: text}
		id := f.save("word "+text, memory.SaveParams{Key: text, Metadata: map[string]any{text: text}})
		f.save("other", memory.SaveParams{Key: text + "%"})
		for _, query := range []string{"word " + text, text + " word"} {
			if found := f.search(memory.SearchParams{Query: query}); len(found) == 0 || found[0].ID != id {
				f.Errorf("Search(%q) = %q, want the fact first", query, contents(found))
			}
		}
		f.search(memory.SearchParams{Query: text})
		if m := f.get(id); m.Content != "word "+text || m.Key != text || m.Metadata[text] != text {
			f.Errorf("Get() = %+v, want the values of %q", m, text)
		}
	}
}

func testMaximumSizes(f *longTermFixture) {
	var b strings.Builder
	for i := 0; b.Len() < memory.MaxContent; i++ {
		fmt.Fprintf(&b, "w%d ", i)
	}
	content := b.String()[:memory.MaxContent]
	f.in = memory.Scope{Owner: strings.Repeat("o", memory.MaxScopePart), Namespace: strings.Repeat("n", memory.MaxScopePart), Agent: strings.Repeat("a", memory.MaxScopePart)}
	id := f.save(content, memory.SaveParams{Key: strings.Repeat("k", memory.MaxFactKey), Metadata: nested(memory.MaxMetadataDepth)})
	if m := f.get(id); m.Content != content {
		f.Errorf("content has %d bytes, want %d", len(m.Content), len(content))
	}
	f.mustFind(memory.SearchParams{Query: content[:memory.MaxQuery]}, content)
	same := strings.Repeat("word ", memory.MaxContent/5)
	f.save(same, memory.SaveParams{})
	f.save(strings.Repeat("x", memory.MaxContent), memory.SaveParams{})
	f.mustFind(memory.SearchParams{Query: "word"}, same)
}

var longTermIsolation = []longTermTest{
	{"facts of other scopes do not exist", testOtherScopes},
	{"scores do not depend on other scopes", testScoresOfOtherScopes},
}

func testOtherScopes(f *longTermFixture) {
	own := f.in
	id := f.save("Ravi lives in Pune.", memory.SaveParams{Key: "home"})
	for _, other := range []memory.Scope{
		{Owner: "eve", Namespace: own.Namespace, Agent: own.Agent},
		{Owner: own.Owner, Namespace: "users", Agent: own.Agent},
		{Owner: own.Owner, Namespace: "users/ravi/home", Agent: own.Agent},
		{Owner: own.Owner, Namespace: own.Namespace, Agent: "other"},
		{Owner: own.Owner + "users", Namespace: "ravi", Agent: own.Agent},
		{Owner: "ADA", Namespace: own.Namespace, Agent: own.Agent},
	} {
		f.in = other
		f.mustFind(memory.SearchParams{Query: "Pune"})
		f.mustFind(memory.SearchParams{})
		suite.Call(f.s.Get(f.ctx(), other, id)).Fails(f, memory.ErrFactNotFound, "Get() in scope %+v", other)
		suite.Call(f.s.Delete(f.ctx(), other, id)).Want(f, false, "Delete() in scope %+v", other)
		if saved := f.save("Other.", memory.SaveParams{Key: "home"}); saved == id {
			f.Errorf("Save() in scope %+v replaced the fact of another scope", other)
		}
		if e, ok := f.s.(memory.Editor); ok {
			suite.Call(e.Update(f.ctx(), other, id, memory.UpdateParams{Content: "x"})).Fails(f, memory.ErrFactNotFound, "Update() in scope %+v", other)
		}
		suite.Call(f.s.Clear(f.ctx(), other)).Want(f, 1, "Clear()")
	}
	f.in = own
	f.mustFind(memory.SearchParams{}, "Ravi lives in Pune.")
}

func testScoresOfOtherScopes(f *longTermFixture) {
	own := f.in
	for _, text := range []string{"green tea and cake", "black tea", "cake with green icing", "a long text about tea, cake, bread, butter and jam"} {
		f.save(text, memory.SaveParams{})
	}
	queries := []string{"green tea", "tea cake", "gren tea", "butr"}
	var want [][]memory.Memory
	for _, q := range queries {
		want = append(want, f.search(memory.SearchParams{Query: q}))
	}
	for i, other := range []memory.Scope{{Owner: "eve", Namespace: own.Namespace, Agent: own.Agent}, {Owner: own.Owner, Namespace: "users", Agent: own.Agent}} {
		f.in = other
		for n := range 20 {
			f.save(fmt.Sprintf("tea tea gren butr number %d of %d", n, i), memory.SaveParams{})
		}
	}
	f.in = own
	for i, q := range queries {
		f.equal(fmt.Sprintf("Search(%q) after saves in other scopes", q), f.search(memory.SearchParams{Query: q}), want[i])
	}
}

func longTermDurability() []longTermTest {
	return []longTermTest{{"facts are found after the store was opened again", func(f *longTermFixture) {
		if f.h.Reopen == nil {
			f.Skipf("the store is not durable")
		}
		model := f.embed()
		for i := range 30 {
			f.save(fmt.Sprintf("fact number%d about gardens", i), memory.SaveParams{Key: fmt.Sprint(i % 20), TTL: time.Duration(i+1) * time.Hour, Metadata: map[string]any{"i": i}, Entities: []string{fmt.Sprint("Garden ", i%5)}})
		}
		queries := []memory.SearchParams{{}, {Query: "number7"}, {Query: "gardens", Limit: 30}, {Query: "gardns"}, {Query: "number5 tea", Mode: memory.ModeSemantic}, {Query: "garden 3", Mode: memory.ModeGraph}}
		var want [][]memory.Memory
		for _, q := range queries {
			want = append(want, f.search(q))
		}
		f.s = f.h.Reopen(f.T, f.s, memory.LongTermConfig{Now: f.clock.Now, Embedder: model})
		for i, q := range queries {
			if diff := diffOf(want[i], f.search(q)); diff != "" || len(want[i]) == 0 {
				f.Errorf("Search(%q) after reopen found %d facts (-want +got):\n%s", q.Query, len(want[i]), diff)
			}
		}
		if slices.Contains(contents(f.search(memory.SearchParams{Limit: 100})), "fact number3 about gardens") {
			f.Errorf("Search() returned a replaced version")
		}
	}}}
}

package boardtest

import (
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/store/board"
	"github.com/holdfast-dev/holdfast/store/suite"
)

func listOfOwner(f *fixture) {
	lister := suite.Optional[board.Lister](f, f.s)
	var want []string
	for i := range 7 {
		want = append(want, f.create(fmt.Sprint("c", i%3)).ID)
	}
	suite.Call(f.s.Create(f.ctx, board.CreateParams{Owner: "bob", Conversation: "c1"})).Must(f, "Create()")
	var got []string
	for after, more := "", true; more; {
		var boards []board.Board
		var err error
		boards, more, err = lister.OfOwner(f.ctx, "alice", after, 3)
		if err != nil || len(boards) > 3 || more && len(boards) < 3 {
			f.Fatalf("OfOwner(%q) = %d boards, %t, %v", after, len(boards), more, err)
		}
		for _, b := range boards {
			got, after = append(got, b.ID), b.ID
		}
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		f.Errorf("OfOwner() = %q, want %q", got, want)
	}
}

package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var webhookListTests = []test{
	{"lanes are listed by owner, task and webhook", lanesListed},
	{"lanes are filtered", lanesFiltered},
	{"a list of lanes continues after any position", lanesAfter},
	{"dead letters are listed newest first", lettersListed},
	{"delivery attempts are listed newest first", attemptsListed},
	{"delivery attempts and dead letters are filtered", deliveriesFiltered},
	{"records with equal times are listed by sequence, descending", deliveriesAtOneTime},
	{"a list continues after its last element was removed", deliveriesAfterRemoval},
	{"delivery attempts and dead letters are read back", deliveriesRoundTrip},
	{"endpoints are stored while they fail or are disabled", endpointsSaved},
	{"lanes and dead letters are counted", webhookBacklogCounts},
}

// createManyLanes creates lanes with similar names and returns their names, sorted by their
// bytes.
func (f *fixture) createManyLanes() []string {
	f.Helper()
	var names []string
	for _, o := range []string{"b", "B", "a", "é"} {
		for _, id := range []string{"t2", "T", "t10", "t"} {
			hooks := []string{"q", "P", "p2", "p"}
			f.createTaskWithWebhooks(store.Key{Owner: o, ID: id}, 1, hooks...)
			for _, h := range hooks {
				names = append(names, o+"/"+id+"/"+h)
			}
		}
	}
	slices.SortFunc(names, func(a, b string) int { return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/")) })
	return names
}

// allLaneNames reads all pages of lanes and returns their names.
func (f *fixture) allLaneNames(q store.LaneQuery) []string {
	f.Helper()
	var names []string
	for range 1000 {
		page := f.lanes(q)
		for _, l := range page.Lanes {
			names = append(names, laneName(&l))
		}
		if !page.More {
			return names
		}
		if len(page.Lanes) != q.Limit {
			f.Fatalf("Lanes(%+v) = %d lanes with More, want %d", q, len(page.Lanes), q.Limit)
		}
		q.After = ptr(leaseOf(page.Lanes[q.Limit-1]))
	}
	f.Fatalf("Lanes(%+v) has more than 1000 pages", q)
	return nil
}

func lanesListed(f *fixture) {
	f.equal("Lanes() of nothing", f.lanes(store.LaneQuery{}), store.LanePage{})
	names := f.createManyLanes()
	for _, limit := range []int{1, 3, len(names) - 1, len(names), 1000} {
		f.equal(fmt.Sprintf("Lanes() by %d", limit), f.allLaneNames(store.LaneQuery{Limit: limit}), names)
	}
}

func lanesFiltered(f *fixture) {
	names := f.createManyLanes()
	states := make(map[string]store.LaneState)
	all := []store.LaneState{store.LaneActive, store.LaneParked, store.LaneDisabled}
	for i, l := range f.claimLanes(laneClaim(worker, 10, 1000)) {
		a := ackDelivered(l, i%2, 20)
		a.State = all[i%3]
		f.ack(a)
		states[laneName(&l.Lane)] = a.State
	}
	for _, q := range []store.LaneQuery{
		{Owner: "a"},
		{Owner: "B"},
		{Owner: "nobody"},
		{Owner: "A"},
		{Owner: "a", TaskID: "t"},
		{Owner: "b", TaskID: "t1"},
		{Owner: "b", TaskID: "t10", ID: "p"},
		{Owner: "b", TaskID: "t10", ID: "p1"},
		{Owner: "b", TaskID: "t10", ID: "P"},
	} {
		for _, q.States = range [][]store.LaneState{nil, all[:1], all[1:2], all[2:], all[1:], {all[2], all[0], all[2]}, all} {
			want := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
				part := strings.Split(name, "/")
				return q.Owner != part[0] || q.TaskID != "" && q.TaskID != part[1] || q.ID != "" && q.ID != part[2] ||
					len(q.States) > 0 && !slices.Contains(q.States, states[name])
			})
			for _, q.Limit = range []int{1, 2, 1000} {
				f.equal(fmt.Sprintf("Lanes(%+v)", q), f.allLaneNames(q), want)
			}
		}
	}
	for _, state := range all {
		want := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return states[name] != state })
		f.equal(fmt.Sprintf("Lanes() that are %s", state), f.allLaneNames(store.LaneQuery{States: []store.LaneState{state}, Limit: 5}), want)
	}
}

func lanesAfter(f *fixture) {
	names := f.createManyLanes()
	for _, after := range [][]string{{"", "", ""}, {"B", "t", "p"}, {"a", "", ""}, {"a", "t", "p1"}, {"a", "z", ""}, {"z", "a", "a"}, {"ê", "", ""}} {
		q := store.LaneQuery{Limit: 1000, After: &store.LaneLease{
			Task: store.Key{Owner: after[0], ID: after[1]}, ID: after[2], Worker: "whoever", Fence: 9,
		}}
		for _, q.Owner = range []string{"", "a"} {
			want := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
				part := strings.Split(name, "/")
				return slices.Compare(part, after) <= 0 || q.Owner != "" && q.Owner != part[0]
			})
			f.equal(fmt.Sprintf("Lanes() of %q after %q", q.Owner, after), f.allLaneNames(q), want)
		}
	}
}

// createManyDeliveries records delivery attempts and dead letters of several webhooks at few
// different times, and returns them in order.
func (f *fixture) createManyDeliveries() ([]store.DeliveryAttempt, []store.DeadLetter) {
	f.Helper()
	var attempts []store.DeliveryAttempt
	var letters []store.DeadLetter
	for i, o := range []string{"b", "B", "a"} {
		for j, id := range []string{"t", "T"} {
			f.createTaskWithWebhooks(store.Key{Owner: o, ID: id}, 4, "q", "p")
			for n, l := range f.claimLanes(laneClaim(worker, 100, 9)) {
				a := ackDeadLetters(l, 4, 0)
				a.Attempts = nil
				for seq := range int64(4) {
					ms := 100 + 10*((i+j+n+int(seq))%3)
					a.Dead[seq].At = at(ms)
					for try := range 3 {
						ms := ms
						if try == 0 {
							ms -= 10
						}
						a.Attempts = append(a.Attempts, deliveryAttempt(l.Webhook.Task, l.Webhook.ID, seq+1, try+1, ms))
					}
				}
				attempts, letters = append(attempts, a.Attempts...), append(letters, a.Dead...)
				f.ack(a)
			}
		}
	}
	return sortedAttempts(attempts), sortedLetters(letters)
}

func sortedAttempts(all []store.DeliveryAttempt) []store.DeliveryAttempt {
	return slices.SortedFunc(slices.Values(all), compareAttempts)
}

func sortedLetters(all []store.DeadLetter) []store.DeadLetter {
	return slices.SortedFunc(slices.Values(all), compareLetters)
}

func compareAttempts(a, b store.DeliveryAttempt) int {
	return cmp.Or(b.At.Compare(a.At), compareKeys(a.Task, b.Task), strings.Compare(a.WebhookID, b.WebhookID),
		cmp.Compare(b.Sequence, a.Sequence), cmp.Compare(b.Attempt, a.Attempt))
}

func compareLetters(a, b store.DeadLetter) int {
	return cmp.Or(b.At.Compare(a.At), compareKeys(a.Task, b.Task), strings.Compare(a.WebhookID, b.WebhookID),
		cmp.Compare(b.Sequence, a.Sequence))
}

func deliveriesAtOneTime(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 3, "p")
	a := ackDeadLetters(f.claimLane(worker, 10), 3, 20)
	a.Attempts = append(a.Attempts, deliveryAttempt(k, "p", 2, 2, 20))
	f.ack(a)
	wantLetters := []store.DeadLetter{a.Dead[2], a.Dead[1], a.Dead[0]}
	wantAttempts := []store.DeliveryAttempt{a.Attempts[2], a.Attempts[3], a.Attempts[1], a.Attempts[0]}
	for _, q := range []store.WebhookQuery{{}, {Owner: owner}, {Owner: owner, TaskID: "t1"}, {Owner: owner, TaskID: "t1", ID: "p"}} {
		for q.Limit = range 5 {
			f.equal(fmt.Sprintf("DeadLetters(%+v)", q), f.deadLetters(q), wantLetters)
			f.equal(fmt.Sprintf("DeliveryAttempts(%+v)", q), f.deliveryAttempts(q), wantAttempts)
		}
	}
}

func lettersListed(f *fixture) {
	f.equal("DeadLetters() of nothing", f.deadLetters(store.WebhookQuery{}), []store.DeadLetter{})
	_, letters := f.createManyDeliveries()
	for _, limit := range []int{1, 7, len(letters) - 1, len(letters), 1000} {
		f.equal(fmt.Sprintf("DeadLetters() by %d", limit), f.deadLetters(store.WebhookQuery{Limit: limit}), letters)
	}
}

func attemptsListed(f *fixture) {
	f.equal("DeliveryAttempts() of nothing", f.deliveryAttempts(store.WebhookQuery{}), []store.DeliveryAttempt{})
	attempts, _ := f.createManyDeliveries()
	for _, limit := range []int{1, 7, len(attempts) - 1, len(attempts), 1000} {
		f.equal(fmt.Sprintf("DeliveryAttempts() by %d", limit), f.deliveryAttempts(store.WebhookQuery{Limit: limit}), attempts)
	}
}

func deliveriesFiltered(f *fixture) {
	attempts, letters := f.createManyDeliveries()
	for _, q := range []store.WebhookQuery{
		{Owner: "a"},
		{Owner: "b"},
		{Owner: "A"},
		{Owner: "a", TaskID: "t"},
		{Owner: "a", TaskID: "x"},
		{Owner: "x", TaskID: "t"},
		{Owner: "B", TaskID: "T", ID: "p"},
		{Owner: "B", TaskID: "T", ID: "P"},
		{},
	} {
		misses := func(k store.Key, id string, sequence int64) bool {
			return q.Owner != "" && q.Owner != k.Owner || q.TaskID != "" && q.TaskID != k.ID || q.ID != "" && q.ID != id ||
				q.Sequence != 0 && q.Sequence != sequence
		}
		for _, q.Sequence = range []int64{0, 1, 3, 9} {
			for _, q.Limit = range []int{1, 5, 1000} {
				wantAttempts := slices.DeleteFunc(slices.Clone(attempts), func(a store.DeliveryAttempt) bool { return misses(a.Task, a.WebhookID, a.Sequence) })
				f.equal(fmt.Sprintf("DeliveryAttempts(%+v)", q), f.deliveryAttempts(q), wantAttempts)
				wantLetters := slices.DeleteFunc(slices.Clone(letters), func(d store.DeadLetter) bool { return misses(d.Task, d.WebhookID, d.Sequence) })
				f.equal(fmt.Sprintf("DeadLetters(%+v)", q), f.deadLetters(q), wantLetters)
			}
		}
	}
}

func deliveriesAfterRemoval(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 6, "p", "q")
	for i, l := range f.claimLanes(laneClaim(worker, 10, 9)) {
		a := ackDeadLetters(l, 6, 0)
		for n := range a.Dead {
			a.Dead[n].At, a.Attempts[n].At = at(10*n+i), at(10*n+i)
		}
		f.ack(a)
	}
	page, err := f.s.DeadLetters(f.ctx, store.WebhookQuery{Limit: 5})
	if err != nil || len(page.Letters) != 5 || page.Next == "" {
		f.Fatalf("DeadLetters() = %d, %q, %v, want 5 and a Next", len(page.Letters), page.Next, err)
	}
	tried, err := f.s.DeliveryAttempts(f.ctx, store.WebhookQuery{Owner: owner, Limit: 5})
	if err != nil || len(tried.Attempts) != 5 || tried.Next == "" {
		f.Fatalf("DeliveryAttempts() = %d, %q, %v, want 5 and a Next", len(tried.Attempts), tried.Next, err)
	}
	f.deleteWebhook(k, "q", 90, false) // the last record of the pages belongs to q
	var want []store.DeadLetter
	var wantTried []store.DeliveryAttempt
	for seq := int64(4); seq >= 1; seq-- {
		ms := 10 * int(seq-1)
		want, wantTried = append(want, deadLetter(k, "p", seq, ms)), append(wantTried, deliveryAttempt(k, "p", seq, 1, ms))
	}
	f.equal("DeadLetters() after a removed record", f.deadLetters(store.WebhookQuery{Limit: 2, Cursor: page.Next}), want)
	f.equal("DeliveryAttempts() after a removed record", f.deliveryAttempts(store.WebhookQuery{Owner: owner, Limit: 2, Cursor: tried.Next}), wantTried)
}

func deliveriesRoundTrip(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 3, "p")
	l := f.claimLane(worker, 10)
	a := ackDelivered(l, 3, 20)
	a.Attempts = []store.DeliveryAttempt{
		{Task: k, WebhookID: "p", Seq: 3, Sequence: 2, Attempt: 1, At: at(15), Outcome: "forbidden"},
		{
			Task: k, WebhookID: "p", Seq: 2, Sequence: 1, Attempt: 2, At: at(14), Duration: 90_000 * 1e6, Status: 200, Outcome: "delivered",
			Address: "[2001:db8::1]:443", Detail: "what\nwas said, é \"quoted\"",
		},
	}
	a.Dead = []store.DeadLetter{
		{Task: k, WebhookID: "p", Seq: 3, Sequence: 2, At: at(16), Cursor: store.WebhookCursor{Seq: 2, Sequence: 1, State: a2a.StateInputRequired}},
		{Task: k, WebhookID: "p", Seq: 1, Sequence: 1, Attempts: 20, Status: 503, Reason: "it has used up, é\n", At: at(13)},
	}
	f.ack(a)
	f.equal("DeliveryAttempts()", f.deliveryAttempts(store.WebhookQuery{}), a.Attempts)
	f.equal("DeadLetters()", f.deadLetters(store.WebhookQuery{}), a.Dead)
}

func endpointsSaved(f *fixture) {
	f.equal("Endpoints() of nothing", f.endpoints(), []store.Endpoint{})
	save := func(e store.Endpoint) {
		f.Helper()
		suite.Do(f.s.SaveEndpoint(f.ctx, e)).Must(f, "SaveEndpoint(%+v)", e)
	}
	failing := store.Endpoint{Name: endpoint, Failures: 3, FailedAt: at(10), OpenUntil: at(500), UpdatedAt: at(20)}
	disabled := store.Endpoint{Name: endpoint + "0", Disabled: true, Reason: "no answer for days, é", UpdatedAt: at(30)}
	check := func(want ...store.Endpoint) {
		f.Helper()
		got := f.endpoints()
		slices.SortFunc(got, func(a, b store.Endpoint) int { return strings.Compare(a.Name, b.Name) })
		f.equal("Endpoints()", got, want)
	}
	save(failing)
	check(failing)
	save(disabled)
	check(failing, disabled)
	failing.Failures, failing.OpenUntil, failing.UpdatedAt, failing.Reason = 9, at(900), at(40), "still"
	save(failing)
	check(failing, disabled)
	disabled.Failures, disabled.FailedAt = 5, at(1)
	save(disabled)
	check(failing, disabled)
	save(store.Endpoint{Name: failing.Name, FailedAt: at(10), OpenUntil: at(900), UpdatedAt: at(50)})
	check(disabled)
	save(store.Endpoint{Name: "https://new.example:443", UpdatedAt: at(50)})
	check(disabled)
	disabled.Disabled, disabled.Failures = false, 0
	save(disabled)
	check()
}

func webhookBacklogCounts(f *fixture) {
	want := func(label string, b store.WebhookBacklog) {
		f.Helper()
		f.equal("WebhookBacklog() with "+label, f.webhookBacklog(), b)
	}
	want("nothing", store.WebhookBacklog{})
	k, theirs := key("t1"), store.Key{Owner: otherOwner, ID: "t1"}
	f.createTaskWithWebhooks(k, 2, "p", "q")
	f.createTaskWithWebhooks(theirs, 2, "p")
	want("three due lanes", store.WebhookBacklog{Pending: 3})
	l := f.claimLanes(laneClaim(worker, 10, 9))
	want("three leased lanes", store.WebhookBacklog{Pending: 3})
	parked, disabled := ackFailed(l[0], 20, 900), ackDeadLetters(l[1], 2, 20) // of p and of the other owner
	parked.State, disabled.State = store.LaneParked, store.LaneDisabled
	f.ack(parked, disabled)
	want("one parked and one disabled", store.WebhookBacklog{Pending: 2, Parked: 1, Disabled: 1, Dead: 2})
	held := ackDeadLetters(l[2], 1, 20)
	held.KeepLease = true
	f.ack(held)
	want("one more dead letter", store.WebhookBacklog{Pending: 2, Parked: 1, Disabled: 1, Dead: 3})
	f.appendEvents(theirs, deliverableEvent(30))
	want("a pending disabled lane", store.WebhookBacklog{Pending: 3, Parked: 1, Disabled: 1, Dead: 3})
	f.saveWebhook(testWebhook(k, "p"), cursorAt(0), 40)
	want("none parked", store.WebhookBacklog{Pending: 3, Disabled: 1, Dead: 3})
	f.replay(theirs, "p", cursorAt(1), 50)
	want("one replayed", store.WebhookBacklog{Pending: 3, Dead: 2})
	f.deleteWebhook(theirs, "p", 60, false)
	f.deleteWebhook(k, "q", 60, true)
	want("two deleted", store.WebhookBacklog{Pending: 1})
}

package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// results are the points of all plots. A series that a run does not measure remains as it is, so that
// another program can add its own, such as a series for a database.
type results struct {
	// Note describes the data.
	Note string `json:"note"`
	// Recall has the recall of ten results and searches per second of processor time.
	Recall lines `json:"recall"`
	// Filters has percent of vectors that a filter selects, and the recall; FilterRates the searches
	// per second of processor time.
	Filters     lines `json:"filters"`
	FilterRates lines `json:"filterRates"`
	// Churn has percent of vectors that were replaced, and the recall.
	Churn lines `json:"churn"`

	chromem outcome
}

type lines []series

// set replaces the series of a name.
func (l *lines) set(name string, points ...point) {
	i := slices.IndexFunc(*l, func(s series) bool { return s.Name == name })
	if i < 0 {
		*l = append(*l, series{Name: name})
		i = len(*l) - 1
	}
	(*l)[i].Points = points
}

func (l lines) measured() (all []series) {
	for _, s := range l {
		if len(s.Points) > 0 {
			all = append(all, s)
		}
	}
	return all
}

const resultsFile = "vectors.json"

// readResults returns the results in a directory, empty ones if there are none.
func readResults(dir string) (*results, error) {
	text, err := os.ReadFile(filepath.Join(dir, resultsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return &results{}, nil
	}
	r := &results{}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	return r, err
}

func (r *results) write(dir string) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, resultsFile), append(text, '\n'), 0o644); err != nil { // not secret
		return err
	}
	return r.plot(dir)
}

// plot writes the plots of the results.
func (r *results) plot(dir string) error {
	percents := []float64{0.1, 1, 10, 50}
	for name, c := range map[string]*chart{
		"vectors-recall.svg": {
			Title: "Recall and rate of searches", X: "recall of ten results", Y: "searches per second of processor time",
			LogY: true, Series: r.Recall.measured(),
		},
		"vectors-filters.svg": {
			Title: "Recall with a filter", X: "percent of vectors that the filter selects", Y: "recall of ten results",
			LogX: true, MinY: 0.9, MaxY: 1, TicksX: percents, Series: r.Filters.measured(),
		},
		"vectors-filter-rate.svg": {
			Title: "Rate of searches with a filter", X: "percent of vectors that the filter selects", Y: "searches per second of processor time",
			LogX: true, LogY: true, TicksX: percents, Series: r.FilterRates.measured(),
		},
		"vectors-churn.svg": {
			Title: "Recall after changes", X: "percent of vectors that were replaced one by one", Y: "recall of ten results",
			MinY: 0.9, MaxY: 1, Series: r.Churn.measured(),
		},
	} {
		c.Note = r.Note
		if len(c.Series) == 0 {
			continue
		}
		if err := c.write(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

package wire

// Members calls member for each member of the JSON object data, in order, with the text of
// its value. It checks the syntax of data, and the names of this object for duplicates. If
// it returns an error that is not from member, do not use the values that member got. name
// and value share memory with data.
func Members(data []byte, member func(name, value []byte) error) error {
	d := &decoder{data: data}
	var seen names
	err := d.object(func(name []byte) error {
		if !seen.add(name) {
			return duplicate(string(name))
		}
		start := d.space()
		if err := d.skip(); err != nil {
			return err
		}
		return member(name, d.data[start:d.pos])
	})
	if err != nil {
		return err
	}
	return d.end()
}

// Items calls item for each item of the JSON array data, in order, with its
// text. value shares memory with data.
func Items(data []byte, item func(i int, value []byte) error) error {
	d := &decoder{data: data}
	err := d.array(func(i int) error {
		start := d.space()
		if err := d.skip(); err != nil {
			return err
		}
		return item(i, d.data[start:d.pos])
	})
	if err != nil {
		return err
	}
	return d.end()
}

// end reports text after the document.
func (d *decoder) end() error {
	if d.space(); d.pos < len(d.data) {
		return d.syntax("unexpected text after the end")
	}
	return nil
}

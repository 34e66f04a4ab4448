package safehttp

import "io"

// minRoom is the initial capacity for content of unknown length.
const minRoom = 64 << 10

// fetching reads the content of a response. It calls grow before it allocates memory.
type fetching struct {
	body    io.Reader
	grow    func(bytes int64) error
	refused bool // grow failed
}

// read returns up to most bytes. length is the expected number, or -1 if it is unknown.
func (f *fetching) read(length, most int64) ([]byte, error) {
	room := min(most, minRoom)
	if length >= 0 {
		room = min(most, length+1) // one more byte to detect the end
	}
	var data []byte
	for {
		if int64(len(data)) == most {
			return data, nil
		}
		if len(data) == cap(data) {
			next := min(most, int64(cap(data))+max(room, int64(cap(data))))
			if err := f.grow(next - int64(cap(data))); err != nil {
				f.refused = true
				return nil, err
			}
			data = append(make([]byte, 0, next), data...)
		}
		n, err := f.body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if err == io.EOF {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

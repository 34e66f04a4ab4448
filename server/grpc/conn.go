package grpc

import (
	"context"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/holdfast-dev/holdfast/server/internal/exchange"
)

// closable is a listener with connections that can be closed by their remote addresses.
type closable struct{ net.Listener }

// Accept implements [net.Listener].
func (l closable) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return closableConn{c}, nil
}

type closableConn struct{ net.Conn }

// RemoteAddr implements [net.Conn].
func (c closableConn) RemoteAddr() net.Addr { return closableAddr{c.Conn.RemoteAddr(), c.Conn} }

// closableAddr is a remote address with its connection.
type closableAddr struct {
	net.Addr
	conn net.Conn
}

// closeConnection closes the connection of a call.
func closeConnection(ctx context.Context) {
	if p, ok := peer.FromContext(ctx); ok {
		if addr, ok := p.Addr.(closableAddr); ok {
			_ = addr.conn.Close() // the call ends with an error
		}
	}
}

// request returns a call as the HTTP request that it is: for the authenticator, and for the parts
// of the server that read headers. For anonymous callers it has only the headers in
// [exchange.Headers].
func request(ctx context.Context, method string, anonymous bool) *http.Request {
	r := &http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: method}, Proto: "HTTP/2.0", ProtoMajor: 2, Body: http.NoBody,
		Header: make(http.Header),
	}
	from, ok := peer.FromContext(ctx)
	if ok {
		if info, ok := from.AuthInfo.(credentials.TLSInfo); ok {
			r.TLS = &info.State
		}
	}
	if anonymous {
		for _, name := range exchange.Headers {
			if values := metadata.ValueFromIncomingContext(ctx, name); len(values) > 0 {
				r.Header[textproto.CanonicalMIMEHeaderKey(name)] = values
			}
		}
		if authority := metadata.ValueFromIncomingContext(ctx, ":authority"); len(authority) > 0 {
			r.Host = authority[0]
		}
		return r.WithContext(ctx)
	}
	if ok {
		r.RemoteAddr = from.Addr.String()
	}
	md, _ := metadata.FromIncomingContext(ctx)
	for name, values := range md {
		switch {
		case name == ":authority":
			r.Host = values[0]
		case name == "content-type", name == "te", strings.HasPrefix(name, "grpc-"), strings.HasSuffix(name, "-bin"):
		default:
			r.Header[textproto.CanonicalMIMEHeaderKey(name)] = values
		}
	}
	return r.WithContext(ctx)
}

// header collects the headers of a response. It is the [http.ResponseWriter] of an exchange. The
// body is sent in another way.
type header http.Header

// Header implements [http.ResponseWriter].
func (h header) Header() http.Header { return http.Header(h) }

// Write implements [http.ResponseWriter].
func (header) Write(p []byte) (int, error) { return len(p), nil }

// WriteHeader implements [http.ResponseWriter].
func (header) WriteHeader(int) {}

// send adds the headers to the headers of a response. The request ID is a detail of errors.
func (h header) send(stream grpc.ServerStream) {
	delete(h, "X-Request-Id")
	if len(h) == 0 {
		return
	}
	md := make(metadata.MD, len(h))
	for name, values := range h {
		md[strings.ToLower(name)] = values
	}
	_ = stream.SetHeader(md) // fails if the response has started or the stream has ended
}

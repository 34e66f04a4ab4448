package main

import (
	"encoding/xml"
	"fmt"
	"math"
	"os"
	"strings"
)

// chart is a line chart, written as SVG.
type chart struct {
	Title, Note, X, Y string
	LogX, LogY        bool
	MinY, MaxY        float64 // 0 means the minimum or maximum of the points
	TicksX            []float64
	Series            []series
}

// series is a line, or a single point.
type series struct {
	Name   string  `json:"name"`
	Points []point `json:"points"`
}

type point struct {
	X     float64 `json:"x"`
	Y     float64 `json:"y"`
	Label string  `json:"label,omitempty"`
}

const (
	chartWidth, chartHeight       = 860, 470
	plotLeft, plotTop, plotBottom = 78, 64, 410
	plotRight                     = 620
)

var colors = []string{"#0b6bcb", "#d1490c", "#2a8a3c", "#8250c4", "#9a6700", "#c0267e"}

// scale maps values to pixels.
type scale struct {
	log          bool
	low, high    float64
	first, after float64
}

func (s scale) at(v float64) float64 {
	low, high := s.low, s.high
	if s.log {
		v, low, high = math.Log10(v), math.Log10(low), math.Log10(high)
	}
	return s.first + (v-low)/(high-low)*(s.after-s.first)
}

// ticks returns round values within the scale.
func (s scale) ticks() (all []float64) {
	if s.log {
		for p := math.Floor(math.Log10(s.low)); p <= math.Ceil(math.Log10(s.high)); p++ {
			if v := math.Pow(10, p); v >= s.low*0.999 && v <= s.high*1.001 {
				all = append(all, v)
			}
		}
		return all
	}
	step := math.Pow(10, math.Floor(math.Log10((s.high-s.low)/5)))
	for _, f := range []float64{1, 2, 5, 10} {
		if (s.high-s.low)/(step*f) <= 7 {
			step *= f
			break
		}
	}
	for v := math.Ceil(s.low/step-1e-9) * step; v <= s.high+step*1e-6; v += step {
		all = append(all, v)
	}
	return all
}

func (c *chart) scales() (x, y scale) {
	x, y = scale{c.LogX, math.Inf(1), math.Inf(-1), plotLeft, plotRight}, scale{c.LogY, math.Inf(1), math.Inf(-1), plotBottom, plotTop}
	for _, s := range c.Series {
		for _, p := range s.Points {
			x.low, x.high = min(x.low, p.X), max(x.high, p.X)
			y.low, y.high = min(y.low, p.Y), max(y.high, p.Y)
		}
	}
	if c.MaxY != 0 {
		y.low, y.high = min(c.MinY, y.low), c.MaxY
	}
	if c.LogY {
		y.low, y.high = math.Pow(10, math.Floor(math.Log10(y.low))), math.Pow(10, math.Ceil(math.Log10(y.high)))
	}
	if !c.LogX {
		margin := (x.high - x.low) * 0.04
		x.low, x.high = x.low-margin, x.high+margin
	}
	return x, y
}

// write writes the chart to a file.
func (c *chart) write(path string) error {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="system-ui, sans-serif" font-size="13" fill="#1f2328">`+"\n", chartWidth, chartHeight, chartWidth, chartHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", chartWidth, chartHeight)
	text(&b, plotLeft, 26, `font-size="17" font-weight="600"`, c.Title)
	text(&b, plotLeft, 47, `fill="#59636e"`, c.Note)
	x, y := c.scales()
	ticksX := c.TicksX
	if ticksX == nil {
		ticksX = x.ticks()
	}
	for _, v := range ticksX {
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#eaeef2"/>`+"\n", x.at(v), plotTop, x.at(v), plotBottom)
		text(&b, x.at(v), plotBottom+20, `text-anchor="middle"`, number(v))
	}
	for _, v := range y.ticks() {
		fmt.Fprintf(&b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#eaeef2"/>`+"\n", plotLeft, y.at(v), plotRight, y.at(v))
		text(&b, plotLeft-8, y.at(v)+4, `text-anchor="end"`, number(v))
	}
	fmt.Fprintf(&b, `<path d="M%d %dV%dH%d" fill="none" stroke="#59636e"/>`+"\n", plotLeft, plotTop, plotBottom, plotRight)
	text(&b, (plotLeft+plotRight)/2, plotBottom+44, `text-anchor="middle"`, c.X)
	text(&b, 0, 0, fmt.Sprintf(`text-anchor="middle" transform="translate(20 %d) rotate(-90)"`, (plotTop+plotBottom)/2), c.Y)
	for i, s := range c.Series {
		c.line(&b, s, colors[i%len(colors)], x, y)
		top := plotTop + 14 + 24*i
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="14" height="4" fill="%s"/>`+"\n", plotRight+20, top-6, colors[i%len(colors)])
		text(&b, plotRight+42, float64(top), "", s.Name)
	}
	b.WriteString("</svg>\n")
	return os.WriteFile(path, []byte(b.String()), 0o644) // not secret
}

func (c *chart) line(b *strings.Builder, s series, color string, x, y scale) {
	var path strings.Builder
	for i, p := range s.Points {
		fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(i, 1)], x.at(p.X), y.at(p.Y))
	}
	fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", path.String(), color)
	for _, p := range s.Points {
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/>`+"\n", x.at(p.X), y.at(p.Y), color)
		if p.Label != "" {
			text(b, x.at(p.X)-7, y.at(p.Y)+16, fmt.Sprintf(`font-size="11" text-anchor="end" fill="%s"`, color), p.Label)
		}
	}
}

func text(b *strings.Builder, x, y float64, attributes, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" %s>`, x, y, attributes)
	_ = xml.EscapeText(b, []byte(s))
	b.WriteString("</text>\n")
}

// number returns a short text for a value.
func number(v float64) string {
	if v >= 1000 {
		return strings.TrimSuffix(fmt.Sprintf("%.1f", v/1000), ".0") + "k"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.4g", v), ".0")
}

package ap2_test

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a/ap2"
)

func Example() {
	order := ap2.PaymentDetailsInit{
		ID:           "order-1",
		DisplayItems: []ap2.PaymentItem{{Label: "Shoes", Amount: ap2.PaymentCurrencyAmount{Currency: "USD", Value: "120.50"}}},
		Total:        ap2.PaymentItem{Label: "Total", Amount: ap2.PaymentCurrencyAmount{Currency: "usd", Value: "12.50"}},
	}
	fmt.Println(order.Validate())
	order.Total.Amount.Currency = "USD"
	fmt.Println(order.Validate())
	// Output:
	// total.amount.currency is "usd", want three upper-case letters (ISO 4217)
	// total.amount.value is 12.50, the items add up to 120.50, with shipping 120.50
}

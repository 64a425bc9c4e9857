"""What `surelane doctor` looks at. One function a check: it says what is wrong and what to do, and changes nothing."""

try:
    from canon.command import main
except KeyboardInterrupt:
    raise SystemExit(130) from None

main()
